import { writeFile } from "node:fs/promises";
import os from "node:os";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import type { Sample } from "./measure.ts";
import { withRig } from "./rig.ts";
import type { Row, RowResult } from "./row.ts";
import { getRobot, listRobots, postSite } from "./rows/http.ts";
import { heartbeat, idleMemory } from "./rows/links.ts";
import { logIngest } from "./rows/log-ingest.ts";
import { startUp } from "./rows/start-up.ts";

/** `npm run bench [-- --only NAME --json FILE]`: what we do and the limit beside it, measured by turns in one run. */

const ROWS: readonly Row[] = [getRobot, listRobots, postSite, heartbeat, idleMemory, logIngest, startUp];

const { values } = parseArgs({
  options: { only: { type: "string" }, json: { type: "string" }, profile: { type: "string" }, help: { type: "boolean", default: false } },
});
if (values.help) {
  process.stdout.write(
    `npm run bench [-- --only NAME --json FILE --profile DIR]\n\n${ROWS.map(({ name, about }) => `  ${name.padEnd(14)}${about}`).join("\n")}\n`,
  );
  process.exit(0);
}
const rows = values.only === undefined ? ROWS : ROWS.filter(({ name }) => name === values.only);
if (rows.length === 0) {
  process.stderr.write(`bench: no row is called ${values.only}; known are ${ROWS.map(({ name }) => name).join(", ")}\n`);
  process.exit(2);
}

const shown = ({ median, min, max }: Sample, digits = 2): string =>
  min === max ? median.toFixed(digits) : `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
const load = os.loadavg();
const results: ({ name: string } & RowResult)[] = [];
for (const row of rows) {
  process.stdout.write(`${row.name}: ${row.about} …\n`);
  // A server of its own for each row: none inherits the memory or the tables of another.
  await withRig(values.profile, async (rig) => void results.push({ name: row.name, ...(await row.run(rig)) }));
}

const table = new Table({
  head: ["operation", "ours", "limit", "ratio", "goal", "", "CPU µs ours", "CPU µs limit"],
  style: { head: [], border: [] },
});
for (const r of results) {
  table.push([
    r.name,
    `${shown(r.ours)} ${r.unit}`,
    `${shown(r.limit)} ${r.unit}`,
    r.figure === undefined ? r.ratio.toFixed(2) : `${r.ratio.toFixed(2)} (${r.figure})`,
    r.goal,
    r.met ? "met" : "MISSED",
    r.ours_cpu_us === undefined ? "" : shown(r.ours_cpu_us, 1),
    r.limit_cpu_us === undefined ? "" : shown(r.limit_cpu_us, 1),
  ]);
}
process.stdout.write(`${table.toString()}\nload before the run: ${load.map((one) => one.toFixed(2)).join(" ")}\n`);

if (values.json !== undefined) {
  const [cpu] = os.cpus();
  const machine = {
    cpu: cpu?.model ?? "unknown",
    cores: os.cpus().length,
    memory_bytes: os.totalmem(),
    kernel: os.release(),
    node: process.version,
  };
  const json = {
    machine,
    load,
    rows: results.map(({ name, ours, limit, unit, ratio, goal, met }) => ({
      name,
      ours: ours.median,
      limit: limit.median,
      unit,
      ratio,
      goal,
      met,
    })),
  };
  await writeFile(values.json, `${JSON.stringify(json, null, 2)}\n`);
}
