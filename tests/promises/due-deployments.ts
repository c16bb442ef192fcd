import assert from "node:assert/strict";
import { hash, randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@roamfleet/clock/testing";
import type { Client } from "@roamfleet/sdk";
import { SimulatedRobot, Swarm } from "@roamfleet/swarm/testing";
import pg from "pg";
import { ServerProcess } from "../processes/server-process.ts";
import { standInNode } from "../processes/stand-in-node.ts";

const LIMITS = ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"];
const API_AT_ONCE = 16;

/** What happened to one scheduled deployment. */
export interface Fired {
  id: string;
  due_at: Date;
  /** By the server's clock; null: never queued. */
  queued_at: Date | null;
  dispatched_at: Date | null;
  /** How often the deployment was queued, and how often its first attempt was dispatched. */
  queued: number;
  dispatched: number;
}

export interface DueOptions {
  /** Environment variables of each server. */
  env?: Record<string, string>;
  /** Number of servers. A single one has its own PostgreSQL. */
  nodes?: number;
}

/** A server, or several nodes, with a fleet that counts as connected, and scheduled deployments to one robot each. */
export class DueDeployments implements AsyncDisposable {
  readonly server: ServerProcess;
  /** Robots that are really connected, and install what is deployed to them. */
  readonly robots: SimulatedRobot[] = [];
  readonly #own: AsyncDisposableStack;
  readonly #api: Client;
  readonly #client: pg.Client;
  readonly #org_id: string;
  readonly #fleet: { site_id: string; fleet_id: string };
  readonly #release: { id: string; tag: string };
  #made = 0;

  private constructor(
    own: AsyncDisposableStack,
    parts: {
      server: ServerProcess;
      api: Client;
      client: pg.Client;
      org_id: string;
      fleet: { site_id: string; fleet_id: string };
      release: { id: string; tag: string };
    },
  ) {
    this.#own = own;
    this.server = parts.server;
    this.#api = parts.api;
    this.#client = parts.client;
    this.#org_id = parts.org_id;
    this.#fleet = parts.fleet;
    this.#release = parts.release;
  }

  /** `robots`: number of robots that are only database rows. They count as connected to a node that is never killed, and never respond. */
  static async start(robots: number, { env = {}, nodes = 1 }: DueOptions = {}): Promise<DueDeployments> {
    await using own = new AsyncDisposableStack();
    const server = own.use(await ServerProcess.start({ args: LIMITS, env, nodes }));
    const { api } = await server.org("Schedules");
    const connection = await server.database();
    const client = new pg.Client({ ...connection, ssl: false });
    await client.connect();
    own.defer(() => client.end());
    const org_id = (await api.getOrg()).data.id;
    const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const bytes = randomBytes(16);
    const tag = "one";
    const { id } = (
      await api.createRelease({ body: { tag, kind: "file", artifact_sha256: hash("sha256", bytes), artifact_size: bytes.length } })
    ).data;
    await api.request("PUT", `/api/releases/${id}/artifact`, {
      body: Uint8Array.from(bytes),
      headers: { "content-type": "application/octet-stream" },
    });
    // These robots count as connected to another server: releases are dispatched to them, and they never respond.
    own.use(await standInNode({ ...connection, ssl: false }, "node_elsewhere"));
    await client.query(
      `insert into robot (org_id, id, name, site_id, fleet_id, public_key, kinds, node_id, node_epoch, created_at, updated_at)
       select $1, 'rob_' || lpad(n::text, 26, '0'), 'cart-' || n, $2, $3, decode(md5(n::text) || md5(n::text || 'b'), 'hex'), '["file"]',
         'node_elsewhere', 1, now(), now() from generate_series(1, $4::int) n`,
      [org_id, site_id, fleet_id, robots],
    );
    await client.query("analyze robot");
    return new DueDeployments(own.move(), { server, api, client, org_id, fleet: { site_id, fleet_id }, release: { id, tag } });
  }

  /** Connects robots to the nodes in turn. They reconnect when a link breaks. */
  async connectRobots(count: number): Promise<void> {
    const { key } = (await this.#api.createEnrollmentKey({ body: { ...this.#fleet, max_uses: count } })).data;
    assert.ok(key !== null);
    const swarm = new Swarm({ url: this.server.url, reconnects: true });
    this.#own.defer(() => swarm.stop());
    for (let number = 1; number <= count; number += 1) {
      const robot = await SimulatedRobot.enroll(swarm, { key, name: `there-${number}` });
      // A robot refused by a busy node reconnects automatically.
      await robot.connect().catch(() => {});
      this.robots.push(robot);
    }
    await until("the robots to be connected", () => this.robots.every(({ connected }) => connected));
  }

  /** Creates deployments by SQL: creating ten thousand through the API takes longer than the time until they are due. */
  async scheduleBySql(due_at: readonly Date[]): Promise<void> {
    if (due_at.length === 0) return;
    const first = this.#made + 1;
    this.#made += due_at.length;
    const values = [this.#org_id, this.#release.id, first, due_at];
    const from = "from unnest($4::timestamptz[]) with ordinality as due (at, place)";
    const id = "'dep_' || lpad(($3 + due.place - 1)::text, 26, '0')";
    // Dispatch cancels deployments whose creator has lost access, so the creator is a valid token of this org.
    const actor = `'${JSON.stringify((await this.#api.getMe()).data.actor)}'`;
    await this.#client.query("begin");
    await this.#client.query(
      `insert into deployment (org_id, id, kind, target_kind, robot_id, release_id, app, status, scheduled_at, event_seq, created_by, created_at, updated_at)
       select $1, ${id}, 'release', 'robot', 'rob_' || lpad(($3 + due.place - 1)::text, 26, '0'), $2, 'main', 'scheduled', due.at, 1, ${actor}, now(), now() ${from}`,
      values,
    );
    await this.#client.query(
      `insert into deployment_event (org_id, deployment_id, seq, id, at, kind, status, message, actor)
       select $1, ${id}, 1, 'evt_' || lpad(($3 + due.place - 1)::text, 26, '0'), now(), 'deployment.scheduled', 'scheduled', 'scheduled for ' || due.at, ${actor} ${from}
       where $2::text is not null`,
      values,
    );
    await this.#client.query(
      `insert into deployment_due (org_id, id, due_at) select $1, ${id}, due.at ${from} where $2::text is not null`,
      values,
    );
    await this.#client.query("commit; analyze deployment, deployment_due, deployment_event");
  }

  /** Creates deployments through the API, as a client does. */
  schedule(due_at: readonly Date[]): Promise<void> {
    const first = this.#made + 1;
    this.#made += due_at.length;
    return this.#schedule(
      due_at.map((_, place) => `rob_${String(first + place).padStart(26, "0")}`),
      due_at,
    );
  }

  /** Creates one deployment for each connected robot. */
  scheduleForRobots(due_at: readonly Date[]): Promise<void> {
    return this.#schedule(
      this.robots.map(({ id }) => id),
      due_at,
    );
  }

  async #schedule(robot_ids: readonly string[], due_at: readonly Date[]): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      for (let place = next++; place < due_at.length; place = next++) {
        const robot_id = robot_ids[place]!;
        const scheduled_at = due_at[place]!.toISOString();
        await this.#api.createDeployment({
          body: { release: this.#release.tag, robot_id, scheduled_at },
          idempotency_key: randomUUID(),
        });
      }
    };
    await Promise.all(Array.from({ length: API_AT_ONCE }, work));
  }

  /** Number of deployments that are still scheduled. */
  async held(): Promise<number> {
    const { rows } = await this.#client.query<{ held: number }>("select count(*)::int as held from deployment_due");
    return rows[0]!.held;
  }

  /** Resolves when at most `count` are still scheduled. */
  async untilHeld(count: number): Promise<void> {
    let held = await this.held();
    await until(`${count} deployments at most to be held`, async () => (held = await this.held()) <= count, { progress: () => held });
  }

  /** Resolves when each queued deployment was dispatched. */
  untilDispatched(): Promise<void> {
    let queued = -1;
    const look = async (): Promise<boolean> => {
      const { rows } = await this.#client.query<{ queued: number }>(
        "select count(*)::int as queued from deployment where status = 'queued' and org_id = $1",
        [this.#org_id],
      );
      return (queued = rows[0]!.queued) === 0;
    };
    return until("due deployments to be dispatched", look, { progress: () => queued }).then(() => {});
  }

  /** Kills and restarts a server at a given time. Returns the interval in which it was down. */
  async killAt(at: Date, node = 0): Promise<{ from: Date; until: Date }> {
    await sleep(Math.max(0, at.getTime() - Date.now()));
    const from = new Date();
    const server = this.server.nodes[node]!;
    await server.program.kill();
    await server.restart();
    return { from, until: new Date() };
  }

  /** Resolves when each connected robot runs its release. Throws if a robot received more than one deployment. */
  async untilRobotsRun(): Promise<void> {
    await until("the robots to run it", () => this.robots.every((robot) => robot.runs() === this.#release.tag), {
      progress: () => this.robots.filter((robot) => robot.runs() !== undefined).length,
    });
    for (const robot of this.robots) {
      // After a reconnect the robot receives the same deployment again.
      const target_ids = robot.received.flatMap(({ apps }) => Object.values(apps).flatMap(({ target_id }) => target_id ?? []));
      assert.equal(new Set(target_ids).size, 1, `robot ${robot.name} received ${target_ids.join(", ")}`);
    }
  }

  /** Returns what happened to each deployment. */
  fired(): Promise<Fired[]> {
    return listFired(this.#client, this.#org_id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.disposeAsync();
  }
}

/** Returns what happened to each scheduled deployment of an org. */
export async function listFired(client: pg.Client, org_id: string): Promise<Fired[]> {
  const { rows } = await client.query<Fired>(
    `select d.id, d.scheduled_at as due_at, min(e.at) filter (where e.kind = 'deployment.queued') as queued_at,
       min(e.at) filter (where e.kind = 'target.dispatched') as dispatched_at,
       count(*) filter (where e.kind = 'deployment.queued')::int as queued,
       count(*) filter (where e.kind = 'target.dispatched' and e.data ->> 'attempt' = '1')::int as dispatched
     from deployment d join deployment_event e on (e.org_id, e.deployment_id) = (d.org_id, d.id)
     where d.org_id = $1 and d.scheduled_at is not null group by d.org_id, d.id, d.scheduled_at`,
    [org_id],
  );
  return rows;
}

/** Checks that each deployment was queued once, dispatched once, and not before its time by the server's clock. */
export function checkOnce(fired: readonly Fired[], count: number): void {
  assert.equal(fired.length, count);
  assert.deepEqual(
    fired.filter(({ queued, dispatched }) => queued !== 1 || dispatched !== 1),
    [],
    "not exactly once",
  );
  assert.deepEqual(
    fired.filter(({ due_at, queued_at }) => queued_at === null || queued_at < due_at),
    [],
    "before its time",
  );
}

/** Milliseconds by which each deployment was queued or dispatched late, in ascending order. */
export const latenessOf = (fired: readonly Fired[], what: "queued_at" | "dispatched_at" = "queued_at"): number[] =>
  fired.map((one) => (one[what]?.getTime() ?? Infinity) - one.due_at.getTime()).toSorted((a, b) => a - b);
