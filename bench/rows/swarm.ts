import { createHash, randomUUID } from "node:crypto";
import http from "node:http";
import pg from "pg";
import { sample } from "../measure.ts";
import type { Program, Rig } from "../rig.ts";
import { concurrently } from "../robots.ts";
import type { Row } from "../row.ts";
import { pushRelease, startSwarm, waitFor } from "../swarm.ts";

const ROBOTS = 5_000;
const QUICK_ROBOTS = 200;
const ROUNDS = 5;
const ARTIFACT_BYTES = 64 * 1024;
/** Reports of a successful install: `observed`, `app` twice, and five steps. */
const REPORTS_PER_ROBOT = 8;
const DOWNLOADS_AT_ONCE = 100;
const CONNECTIONS = 10;

async function deploy(rig: Rig, fleet_id: string): Promise<number> {
  const release = await pushRelease(rig, ARTIFACT_BYTES);
  const started = performance.now();
  const { data } = await rig.api.createDeployment({ body: { release, fleet_id }, idempotency_key: randomUUID() });
  await waitFor("all robots to be done", async () => (await rig.api.getDeployment({ params: { id: data.id } })).data.status === "applied");
  return performance.now() - started;
}

function download(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    http
      .get(url, { agent: false }, (response) => {
        const hash = createHash("sha256");
        response
          .on("data", (chunk: Buffer) => hash.update(chunk))
          .on("end", () => resolve(void hash.digest()))
          .on("error", reject);
      })
      .on("error", reject);
  });
}

/** The limit: the same number of downloads of the same size, then a durable INSERT for each report. */
async function limit(rig: Rig, raw: Program, robots: number, table: string): Promise<number> {
  const pool = new pg.Pool({ ...rig.database, max: CONNECTIONS });
  await pool.query(`create table ${table} (robot int, seq int, body jsonb, primary key (robot, seq))`);
  const body = JSON.stringify({
    kind: "target",
    target_id: `tgt_${"0".repeat(26)}`,
    deployment_id: `dep_${"0".repeat(26)}`,
    attempt: 1,
    status: "applied",
  });
  const started = performance.now();
  const all = Array.from({ length: robots }, (_, i) => i);
  await concurrently(all, DOWNLOADS_AT_ONCE, () => download(raw.url));
  await concurrently(all, CONNECTIONS, async (robot) => {
    for (let seq = 1; seq <= REPORTS_PER_ROBOT; seq += 1)
      await pool.query({ name: table, text: `insert into ${table} values ($1, $2, $3)`, values: [robot, seq, body] });
  });
  const ms = performance.now() - started;
  await pool.query(`drop table ${table}`);
  await pool.end();
  return ms;
}

export const swarm: Row = {
  name: "swarm",
  area: "deployments",
  about:
    `${ROBOTS} robots of \`roamfleet swarm\` from the request to the last \`applied\`, each downloads ${ARTIFACT_BYTES / 1024} KiB itself; compared with as many raw ` +
    `downloads, then ${REPORTS_PER_ROBOT} bare INSERTs a robot over ${CONNECTIONS} connections`,
  run: async (rig) => {
    const robots = rig.quick ? QUICK_ROBOTS : ROBOTS;
    const raw = await rig.start("limits/artifact", { BYTES: String(ARTIFACT_BYTES) });
    const { fleet_id, child } = await startSwarm(rig, robots);
    const [ours, limits]: [number[], number[]] = [[], []];
    try {
      for (let i = 0; i <= (rig.quick ? 1 : ROUNDS); i += 1) {
        const [us, them] = [await deploy(rig, fleet_id), await limit(rig, raw, robots, `bench_report_${i}`)];
        if (i === 0) continue; // warms up
        ours.push((robots * 1_000) / us);
        limits.push((robots * 1_000) / them);
      }
    } finally {
      child.kill("SIGKILL");
      await raw.stop();
    }
    const [us, them] = [sample(ours), sample(limits)];
    return { ours: us, limit: them, unit: "robots/s", ratio: them.median / us.median };
  },
};
