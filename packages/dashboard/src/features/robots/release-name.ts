interface Named {
  app: string;
  tag: string;
}

const LETTER = /^\p{L}/u;

/** Whether a tag starts with the name of its app, as "nav-2.4.0" of app "nav": the app name can then be left out. */
export const saysApp = ({ app, tag }: Named): boolean => tag.startsWith(app) && !LETTER.test(tag.slice(app.length));

/** The default app name. */
const APP_DEFAULT = "main";

/** Formats a release as app and tag; the tag alone if it contains the app or the app has the default name. */
export function releaseName({ app, tag }: Named): string {
  if (tag === "") return `deleted release of ${app}`;
  return app === APP_DEFAULT || saysApp({ app, tag }) ? tag : `${app} ${tag}`;
}
