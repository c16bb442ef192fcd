interface Named {
  app: string;
  tag: string;
}

const LETTER = /^\p{L}/u;

/** Whether a tag begins with the name of its app, as in "nav-2.4.0" of "nav": then the app needs no saying. */
export const saysApp = ({ app, tag }: Named): boolean => tag.startsWith(app) && !LETTER.test(tag.slice(app.length));

/** What an app is called where nobody gave it a name. */
const APP_DEFAULT = "main";

/** A release in one line: its app and its tag, or the tag alone where that says the app, or the app has no name of its own. */
export function releaseName({ app, tag }: Named): string {
  if (tag === "") return `removed release of ${app}`;
  return app === APP_DEFAULT || saysApp({ app, tag }) ? tag : `${app} ${tag}`;
}
