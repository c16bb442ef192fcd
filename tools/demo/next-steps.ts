import path from "node:path";

export interface Steps {
  url: string;
  token: string;
  fleet_id: string;
  robot_id: string;
  bundles: Record<string, string>;
  data: string;
  root: string;
  /** Whether ROS 1 is installed here, so that the robots have topics. */
  has_topics: boolean;
}

/** Returns the commands to try next, as lines for a shell in the root of the clone. */
export function nextSteps({ url, token, fleet_id, robot_id, bundles, root, data, has_topics }: Steps): string {
  const topics = has_topics
    ? `
Read the ROS topics of a robot:

  rf robots topics ${robot_id} list
  rf robots topics ${robot_id} echo /scan --rate 1
  rf robots topics ${robot_id} hz /scan
`
    : `
rf robots topics ${robot_id} list shows the topics of a ROS that runs on this machine. With Debian's packages
ros-core, python3-std-msgs and python3-sensor-msgs installed, the next npm start also publishes sample topics.
`;
  const file = (version: string): string => shown(path.relative(root, bundles[version] ?? ""));
  return `
Roamfleet is running with three robots. Open this address in a browser:

  ${url}

and sign in with this token:

  ${token}

To use the command line, open a second terminal in this directory and type:

  alias rf=./bin/rf.mjs
  rf login --base-url ${url} --token ${token}
  rf robots list

Push a release and deploy it to the fleet:

  rf releases push ${file("1.0.0")} --kind app_bundle
  rf deploy hello-robot-1.0.0 --fleet ${fleet_id} --watch
  rf robots logs ${robot_id}

Deploy a release whose health check fails; the robots roll back to 1.0.0:

  rf releases push ${file("2.0.0")} --kind app_bundle
  rf deploy hello-robot-2.0.0 --fleet ${fleet_id} --watch
  rf robots show ${robot_id}

Watch the camera of a robot, and open a shell on it:

  rf robots camera ${robot_id}
  rf robots shell ${robot_id}
${topics}
The API's reference is at ${url}/docs, the logs of all processes are in
${shown(path.relative(root, path.join(data, "demo", "logs")))}/.

Ctrl-C here stops everything.
`;
}

const shown = (file: string): string => (/^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`);

export const farewell = (data: string): string => `Stopped. All data is kept in ${data} for the next npm start.\n`;
