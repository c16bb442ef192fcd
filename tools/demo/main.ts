import path from "node:path";
import { parseArgs } from "node:util";
import { setUpOrg, writeBundles } from "./setup.ts";
import { Processes } from "./processes.ts";
import { farewell, nextSteps } from "./next-steps.ts";
import { servePositions } from "./positions.ts";
import { Progress } from "./progress.ts";
import { writeRobotConfig } from "./robot-config.ts";
import { startTopics } from "./topics.ts";

/** `npm start`: starts the whole product on this machine, from nothing to three robots that wait for a release. */

const root = path.resolve(import.meta.dirname, "../..");
const ROBOTS = ["robot-1", "robot-2", "robot-3"];

const { values } = parseArgs({
  options: {
    data: { type: "string", default: path.join(root, ".roamfleet") },
    listen: { type: "string", default: "127.0.0.1:7600" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  process.stdout.write(
    "npm start [-- --data DIR --listen HOST:PORT]\n\nStarts a server with an embedded database, a demo org and three robots. Ctrl-C stops everything; the data is kept for the next start.\n",
  );
  process.exit(0);
}

// In `npm start | tee FILE`, Ctrl-C ends tee first. Ignore the errors of later output, so that the server still shuts down in order.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

const progress = new Progress(process.stdout);
const processes = new Processes(path.join(values.data, "demo", "logs"));
let ending: Promise<void> | undefined;

function end(code: number): Promise<void> {
  ending ??= (async () => {
    progress.stop();
    process.stdout.write("\nStopping robots and server …\n");
    await processes.stop();
    process.stdout.write(farewell(values.data));
    process.exit(code);
  })();
  return ending;
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void end(0));

try {
  const url = await progress.during("Starting the server, its database and its dashboard", () =>
    processes.startServer({ root, data: values.data, listen: values.listen }),
  );
  const demo = await progress.during("Setting up the demo org, site and fleet", () => setUpOrg(url, values.data));
  const bundles = await progress.during("Packing the sample app", () => writeBundles(path.join(values.data, "demo")));
  const ros1_master_uri = await startTopics(processes, values.data);
  await progress.during("Starting three robots", async () => {
    const urlOf = await servePositions(ROBOTS);
    for (const name of ROBOTS) {
      const config = await writeRobotConfig(path.join(values.data, "demo"), { name, metrics_url: urlOf(name), ros1_master_uri });
      processes.startRobot({ root, url, key: demo.enrollment_key, state: path.join(values.data, "demo", "robots", name), name, config });
    }
    await demo.robotsOnline(ROBOTS, () => processes.failure());
  });
  process.stdout.write(
    nextSteps({
      url,
      token: demo.token,
      fleet_id: demo.fleet_id,
      robot_id: await demo.robotId(ROBOTS[0] as string),
      bundles,
      data: values.data,
      root,
      has_topics: ros1_master_uri !== undefined,
    }),
  );
  await processes.untilOneEnds();
  if (ending === undefined) process.stderr.write(`\n${processes.failure() ?? "a process ended"}\n`);
  await end(1);
} catch (error) {
  if (ending === undefined) {
    progress.stop();
    process.stderr.write(`\nThe demo could not start: ${error instanceof Error ? error.message : String(error)}\n`);
  }
  await end(1);
}
