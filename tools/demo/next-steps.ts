import path from "node:path";

export interface Steps {
  url: string;
  token: string;
  fleet_id: string;
  robot_id: string;
  bundles: Record<string, string>;
  data: string;
  root: string;
}

/** What to type next, line by line as it works in a shell at the root of the clone. */
export function nextSteps({ url, token, fleet_id, robot_id, bundles, root, data }: Steps): string {
  const file = (version: string): string => shown(path.relative(root, bundles[version] ?? ""));
  return `
Robofleet is running with three robots.

  API        ${url}
  Reference  ${url}/docs
  Token      ${token}
  Logs       ${shown(path.relative(root, path.join(data, "demo", "logs")))}/

Open a second terminal here and type:

  alias rf=./bin/rf.mjs
  rf login --base-url ${url} --token ${token}
  rf robots list

Push a release and deploy it to the fleet:

  rf releases push ${file("1.0.0")} --kind app_bundle
  rf deploy hello-robot-1.0.0 --fleet ${fleet_id} --watch
  rf robots logs ${robot_id}

Now a bad one: it starts, then stops working, and the robots go back by themselves:

  rf releases push ${file("2.0.0")} --kind app_bundle
  rf deploy hello-robot-2.0.0 --fleet ${fleet_id} --watch
  rf robots show ${robot_id}

See what a robot sees, and open a shell on it:

  rf robots camera ${robot_id}
  rf robots shell ${robot_id}

Ctrl-C here stops everything.
`;
}

const shown = (file: string): string => (/^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`);

export const farewell = (data: string): string => `Stopped. Everything is kept in ${data}; the next npm start finds it again.\n`;
