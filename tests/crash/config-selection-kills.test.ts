import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Reached } from "@roamfleet/clock/failpoint";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { promiseSize } from "../harness/promise.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { databaseOf } from "../promises/writes-under-fire.ts";

const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
const POINTS = promiseSize({ test: 3, full: 100 });
/** More than two chunks of the fan-out. */
const ROBOTS = 4_500;
const ROLLOUT = { waves: [{ count: 1_500 }] };

test(
  "a config deployment to a selection has each robot once, in its wave, when the server is killed during the fan-out",
  LIMIT,
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
    const log = path.join(directory, "points.log");
    const lines = (): Reached[] =>
      existsSync(log)
        ? readFileSync(log, "utf8")
            .split("\n")
            .filter(Boolean)
            .map((line) => JSON.parse(line) as Reached)
        : [];
    try {
      await using server = await ServerProcess.start({ nodes: 1 });
      const { api } = await server.org("Configs");
      const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
      const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
      const query = async <T extends object>(text: string, values: readonly unknown[]): Promise<T[]> => {
        const client = new pg.Client(await databaseOf(server));
        await client.connect();
        try {
          return (await client.query<T>(text, [...values])).rows;
        } finally {
          await client.end();
        }
      };
      await query(
        `insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
       select f.org_id, 'rob_' || lpad(n::text, 26, '0'), 'seeded ' || n, f.site_id, f.id, decode(lpad(to_hex(n), 64, '0'), 'hex'), now(), now()
       from generate_series(1, $1::int) n, fleet f where f.id = $2`,
        [ROBOTS, fleet_id],
      );
      const restart = async (spec: string): Promise<void> => {
        await server.program.kill();
        server.env = spec === "" ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log };
        await server.restart();
      };
      const create = async (idempotency_key: string): Promise<string> =>
        (await api.createConfigDeployment({ body: { target_selector: { site_id }, rollout: ROLLOUT }, idempotency_key })).data.id;
      const sizesOf = async (id: string): Promise<number[]> =>
        (await api.listConfigDeploymentWaves({ params: { id } })).items.map(({ total }) => total);
      const SIZES = [1_500, 3_000];
      const isComplete = (id: string) =>
        until(`the waves of ${id}`, async () => (await sizesOf(id)).reduce((sum, size) => sum + size, 0) === ROBOTS);

      const cancel = async (id: string): Promise<void> => {
        await api.cancelConfigDeployment({ params: { id } });
        // The server must have no work left when it restarts, or it could reach the failpoint before the next deployment.
        await until(`${id} to end`, async () => (await api.getConfigDeployment({ params: { id } })).data.finished_at !== null);
      };
      await restart("list");
      const before = lines().length;
      const first = await create(randomUUID());
      await isComplete(first);
      const reached_points = new Set(
        lines()
          .slice(before)
          .map(({ point }) => point),
      );
      const traced = [...reached_points].filter((point) =>
        /^features\/deployments\/(?:create|rollout|store\/(?:deployments|selection|targets|waves))\b.*:/.test(point),
      );
      const points = [...traced.filter((point) => point.endsWith("-commit")), ...traced.filter((point) => !point.endsWith("-commit"))];
      assert.ok(
        points.some((point) => point.endsWith(":before-commit")),
        traced.join(" "),
      );
      await cancel(first);
      for (const point of points.slice(0, POINTS)) {
        const reached = lines().length;
        await restart(point);
        const key = randomUUID();
        // The request fails if the server is killed before it responds.
        await create(key).catch(() => {});
        await until(`the server to die at ${point}`, () => lines().length > reached && !server.program.running);
        await restart("");
        const id = await create(key);
        await isComplete(id);
        assert.deepEqual(await sizesOf(id), SIZES);
        const [found] = await query<{ targets: number; robots: number; in_order: boolean }>(
          `select count(*)::int as targets, count(distinct robot_id)::int as robots,
           max(robot_id) filter (where wave = 0) < min(robot_id) filter (where wave = 1) as in_order
         from deployment_target where deployment_id = $1`,
          [id],
        );
        assert.deepEqual(found, { targets: ROBOTS, robots: ROBOTS, in_order: true });
        assert.deepEqual(await query("select id from deployment where fan_out_robots is not null", []), []);
        await cancel(id);
      }
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
);
