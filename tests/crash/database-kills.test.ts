import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { databaseOf, killPostgres } from "../promises/writes-under-fire.ts";
import { pointsOf, readFailpointLog } from "./failpoint-log.ts";
import { Ledger } from "./ledger.ts";

const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
const VICTIMS = ["postmaster", "backend"] as const;
const POINTS = promiseSize({ test: 3, full: 100 });

/**
 * Kills the PostgreSQL backend that runs the transaction in which the server is stopped. If there is none, kills any backend of the server.
 */
async function killBackend(server: ServerProcess): Promise<void> {
  const client = new pg.Client(await databaseOf(server));
  client.on("error", () => {});
  await client.connect();
  const { rows } = await client.query<{ pid: number }>(
    "select pid from pg_stat_activity where application_name = 'roamfleet' order by state = 'idle in transaction' desc, state_change desc limit 1",
  );
  assert.ok(rows[0] !== undefined, "the server has a connection");
  process.kill(rows[0].pid, "SIGKILL");
  await client.end().catch(() => {});
}

test("a write is stored exactly once when PostgreSQL is killed during its transaction", LIMIT, async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
  const log = path.join(directory, "points.log");
  try {
    await using server = await ServerProcess.start();
    const { token } = await server.org("Held");
    const ledger = new Ledger(() => server.url, token);
    const rearm = async (spec: string): Promise<void> => {
      await server.program.kill();
      server.env = spec === "" ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log };
      await server.restart();
    };
    const { id: site_id } = await ledger.post("/api/sites", { name: "Home" });
    await rearm("list");
    await ledger.post("/api/fleets", { name: "Traced", site_id });
    // The points bear the name of the first statement, which locks the fleet's site.
    const points = pointsOf(log, /^features\/(sites|fleets)\/.*:(statement|before-commit|after-commit)/);
    assert.ok(points.length >= 3, points.join(" "));
    let kills = 0;
    for (const point of points.slice(0, POINTS)) {
      for (const victim of VICTIMS) {
        const name = `${victim} at ${point}`;
        const held = readFailpointLog(log).length;
        await rearm(`${point}!hold`);
        const posting = ledger.post("/api/fleets", { name, site_id });
        await until(`the server to stop at ${point}`, () => readFailpointLog(log).length > held && stopped(server.program.child.pid));
        if (victim === "postmaster") assert.ok(killPostgres(server));
        else await killBackend(server);
        server.program.child.kill("SIGCONT");
        const { id } = await posting;
        assert.equal((await ledger.get(`/api/fleets/${id}`))["name"], name);
        const { text } = await ledger.send("GET", "/api/fleets?limit=1000");
        assert.equal((JSON.parse(text) as { items: { name: string }[] }).items.filter((fleet) => fleet.name === name).length, 1, name);
        kills += 1;
      }
    }
    await rearm("");
    const replays = await ledger.checkReplays();
    provePromise(
      t,
      16,
      `PostgreSQL's postmaster or backend killed ${kills} times at ${Math.min(points.length, POINTS)} points inside a transaction: ${replays} writes there once, replays byte-equal`,
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

/** Whether the process is stopped (state T), which happens shortly after it has logged a line. */
const stopped = (pid: number | undefined): boolean => /\) T /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
