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
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SwarmProcess } from "../processes/swarm-process.ts";
import { databaseOf } from "../promises/writes-under-fire.ts";

const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
const POINTS = promiseSize({ test: 3, full: 100 });
const ROLLOUT = { waves: [{ count: 1, soak_seconds: 3_600, gate_incidents: "critical" as const }], verify_seconds: 0 };

test("a deployment is paused once by an incident when the server is killed around the pause", LIMIT, async () => {
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
    const { api } = await server.org("Gates");
    const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
    const online = async (): Promise<number> => (await api.getFleet({ params: { id: fleet_id } })).data.online_count;
    /** Runs two robots while `work` runs. A robot that waits to reconnect to a killed server would delay the test. */
    const withRobots = async (work: () => Promise<string>): Promise<string> => {
      await using swarm = new SwarmProcess({
        url: server.url,
        key: key ?? "",
        robots: 2,
        args: ["--state", path.join(directory, "robots")],
      });
      await until("both robots to be connected", async () => (await online()) === 2, { progress: () => swarm.program.output.length });
      return await work();
    };
    const restart = async (spec: string): Promise<void> => {
      await server.program.kill();
      server.env = spec === "" ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log };
      await server.restart();
    };
    const query = async (text: string, values: readonly string[]): Promise<Record<string, string>[]> => {
      const client = new pg.Client(await databaseOf(server));
      await client.connect();
      try {
        return (await client.query<Record<string, string>>(text, [...values])).rows;
      } finally {
        await client.end();
      }
    };
    const stateOf = async (id: string): Promise<string> => {
      const { status, reason, wave } = (await api.getDeployment({ params: { id } })).data;
      return `${status} ${reason} ${wave}`;
    };
    /** Deploys until the first wave soaks, restarts the server with a failpoint, and plants an incident of the updated robot. */
    const plant = async (spec: string): Promise<string> => {
      const id = await withRobots(async () => {
        const body = { release: "one", fleet_id, rollout: ROLLOUT };
        const { data } = await api.createDeployment({ body, idempotency_key: randomUUID() });
        const waves = async () => (await api.listDeploymentWaves({ params: { id: data.id } })).items;
        await until("the first wave to soak", async () => (await waves())[0]?.status === "soaking");
        return data.id;
      });
      const [target] = (await api.listDeploymentTargets({ params: { id }, query: { status: "applied" } })).items;
      // A slow start must not check the deployment, and die at the failpoint, before the incident exists.
      await query("update deployment set step_at = now() + interval '1 hour' where id = $1", [id]);
      await restart(spec);
      await query(
        `with i as (
          insert into incident (org_id, id, rule_id, title, severity, group_id, site_id, status, member_count, active_count, raised_at, joined_at, created_at, updated_at)
          select t.org_id, 'inc_' || t.id, 'alr_planted', 'Planted', 'critical', $2, $2, 'open', 1, 1, now(), now(), now(), now()
          from deployment_target t where t.deployment_id = $1 and t.status = 'applied'
          returning org_id, id)
        insert into incident_member (org_id, incident_id, subject_id, joined_at) select org_id, id, $3, now() from i`,
        [id, site_id, target?.robot_id ?? ""],
      );
      await query("update deployment set step_at = now() where id = $1", [id]);
      return id;
    };
    const isPaused = (id: string) => until(`deployment ${id} to be paused`, async () => (await stateOf(id)) === "paused gate_failed 0");
    await pushBundle(api, "one", await appBundle());
    const first = await plant("list");
    const before = lines().length;
    await isPaused(first);
    const traced = [
      ...new Set(
        lines()
          .slice(before)
          .map(({ point }) => point),
      ),
    ].filter((point) => /^features\/deployments\/.*:/.test(point));
    const points = [...traced.filter((point) => point.endsWith("-commit")), ...traced.filter((point) => !point.endsWith("-commit"))];
    assert.ok(
      points.some((point) => point.endsWith(":before-commit")),
      traced.join(" "),
    );
    for (const point of points.slice(0, POINTS)) {
      const reached = lines().length;
      const id = await plant(point);
      await until(`the server to die at ${point}`, () => lines().length > reached && !server.program.running);
      await restart("");
      await isPaused(id);
      const events = (await api.listDeploymentEvents({ params: { id } })).items;
      assert.equal(events.filter(({ kind }) => kind === "deployment.paused").length, 1);
      assert.match(events.at(-1)?.message ?? "", /joined the critical incident Planted/);
      await api.resumeDeployment({ params: { id } });
      assert.equal(await stateOf(id), "in_progress null 0");
      assert.equal((await api.promoteDeployment({ params: { id } })).data.wave, 1);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
