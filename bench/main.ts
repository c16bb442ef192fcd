import { writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { pageOf, tableOf } from "./report.ts";
import { describeMachine, LATEST, mergeResults, readResults, type Results, thisMachine } from "./results.ts";
import { withRig } from "./rig.ts";
import type { Row, RowResult } from "./row.ts";
import { acceptPlain, acceptTls } from "./rows/accept.ts";
import { camera } from "./rows/camera.ts";
import { dueDeployments } from "./rows/due-deployments.ts";
import { fanOut } from "./rows/fan-out.ts";
import { fleetDeployment } from "./rows/fleet-deployment.ts";
import { heartbeat } from "./rows/heartbeat.ts";
import { getRobot, listRobots, postSite } from "./rows/http.ts";
import { idleMemory, idleMemoryTls } from "./rows/idle-memory.ts";
import { logFollow } from "./rows/log-follow.ts";
import { logIngest } from "./rows/log-ingest.ts";
import { pgFloor } from "./rows/pg-floor.ts";
import { portForward } from "./rows/port-forward.ts";
import { startUp } from "./rows/start-up.ts";
import { swarm } from "./rows/swarm.ts";

/** `npm run bench`: what we do and the limit beside it, measured by turns in one run. */

const ROWS: readonly Row[] = [
  getRobot,
  listRobots,
  postSite,
  pgFloor,
  acceptPlain,
  acceptTls,
  heartbeat,
  idleMemory,
  idleMemoryTls,
  fanOut,
  logIngest,
  logFollow,
  portForward,
  camera,
  fleetDeployment,
  dueDeployments,
  swarm,
  startUp,
];
const PAGE = path.resolve(import.meta.dirname, "../docs/reference/bench.md");

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    json: { type: "string" },
    compare: { type: "string" },
    profile: { type: "string" },
    quick: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run bench [-- OPTIONS]

  --only NAME     that row; may be repeated
  --compare FILE  show what changed since earlier results
  --json FILE     add the results to a file (always: bench/results/latest.json)
  --write         write docs/reference/bench.md from bench/results/latest.json, with what was just measured
  --profile DIR   write the CPU profiles of the server and the limits there
  --quick         few rounds and robots: to see that the rows run

${ROWS.map(({ name, about }) => `  ${name.padEnd(20)}${about}`).join("\n")}
`);
  process.exit(0);
}
const unknown = (values.only ?? []).filter((name) => !ROWS.some((row) => row.name === name));
if (unknown.length > 0) {
  process.stderr.write(`bench: no row is called ${unknown.join(", ")}; known are ${ROWS.map(({ name }) => name).join(", ")}\n`);
  process.exit(2);
}
const rows = values.only === undefined ? ROWS : ROWS.filter(({ name }) => values.only?.includes(name));
const earlier = values.compare === undefined ? undefined : await readResults(values.compare);
const machine = thisMachine();
process.stdout.write(
  `${describeMachine(machine)}; load ${os
    .loadavg()
    .map((one) => one.toFixed(2))
    .join(" ")}\n`,
);

const results: Results = {};
for (const row of rows) {
  const [load = Number.NaN] = os.loadavg();
  const measured_at = new Date().toISOString();
  process.stdout.write(`${row.name} (load ${load.toFixed(2)}): ${row.about} …\n`);
  // A server of its own for each row: none inherits the memory or the tables of another.
  await withRig({ ...row.server, quick: values.quick, profile: values.profile }, async (rig) => {
    const result = await row.run(rig);
    const lines: readonly RowResult[] = "unit" in result ? [result] : result;
    results[row.name] = { about: row.about, measured_at, machine, load, quick: values.quick, lines };
  });
  // After each row, so that a run that is broken off is not lost.
  await mergeResults(LATEST, results);
}

process.stdout.write(`${tableOf(results, earlier)}\n`);
if (values.json !== undefined) await mergeResults(values.json, results);
if (values.write) {
  await writeFile(PAGE, pageOf(await readResults(LATEST)));
  process.stdout.write(`written: ${path.relative(process.cwd(), PAGE)}\n`);
}
