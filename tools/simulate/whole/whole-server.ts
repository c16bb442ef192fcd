import { type IdSource, idSource } from "@roamfleet/clock";
import type { Desired, Hello, Report, ServerMessage } from "@roamfleet/protocol/link";
import type { Plane } from "../../../packages/server/src/context.ts";
import { localBus } from "../../../packages/server/src/engines/bus/index.ts";
import { cancelDeployment } from "../../../packages/server/src/features/deployments/cancel/cancel.ts";
import { createDeployment } from "../../../packages/server/src/features/deployments/create/create.ts";
import { desiredOf } from "../../../packages/server/src/features/deployments/dispatch/desired.ts";
import { dispatchQueued } from "../../../packages/server/src/features/deployments/dispatch/dispatch.ts";
import { endLateSteps, endPendingTargets } from "../../../packages/server/src/features/deployments/cancel/end-targets.ts";
import { advanceDeployments } from "../../../packages/server/src/features/deployments/create/fan-out.ts";
import {
  answerRobotAhead,
  greetRobot,
  ReportIntake,
  reportPositions,
  robotOnline,
} from "../../../packages/server/src/features/deployments/index.ts";
import { retryDeployment } from "../../../packages/server/src/features/deployments/create/from-ended.ts";
import { pauseDeployment, promoteDeployment, resumeDeployment } from "../../../packages/server/src/features/deployments/rollout/pause.ts";
import { Postponed } from "../../../packages/server/src/features/deployments/reconciler.ts";
import { rollBackDeployment } from "../../../packages/server/src/features/deployments/rollback/rollback.ts";
import { repairWaits } from "../../../packages/server/src/features/deployments/dispatch/wake.ts";
import { releaseDue } from "../../../packages/server/src/features/deployments/create/schedule.ts";
import { HINT_PUSH } from "../../../packages/server/src/features/deployments/transition.ts";
import { robotConnected, robotDisconnected, sweepDeadNodes } from "../../../packages/server/src/features/robots/index.ts";
import { removeRobot } from "../../../packages/server/src/features/robots/remove.ts";
import { seedRobot } from "../../../packages/server/src/features/testing/seed-robot.ts";
import type { Caller } from "../../../packages/server/src/kernel/caller.ts";
import type { SystemDb } from "../../../packages/server/src/kernel/db.ts";
import { Fault } from "../../../packages/server/src/kernel/fault.ts";
import { createLog } from "../../../packages/server/src/kernel/log.ts";
import { sql } from "../../../packages/server/src/kernel/sql.ts";
import type { Session } from "../../../packages/server/src/link/index.ts";
import type { Chance } from "../chance.ts";
import type { ManualClock } from "../manual-clock.ts";
import { EXPIRY_HOURS } from "../schedule.ts";
import {
  type Answer,
  type Fate,
  Killed,
  type Loop,
  type Names,
  type Operation,
  type Plant,
  type Setting,
  type SimulatedServer,
  type View,
} from "../server.ts";
import { look } from "./look.ts";
import { MortalDb } from "./mortal-db.ts";
import { linkOf, testPlane } from "../../../packages/server/src/features/testing/test-plane.ts";

const NODE = { id: "node_simulated", epoch: 1 };
const NO_FLEET = "";
/** Upper bound (exclusive) of the transactions that a killed operation completes before its last one. */
const TRANSACTIONS_SURVIVED_MAX = 3;

/** The server's own engine on a real PostgreSQL. Instead of sockets and timers, the schedule calls the engine. */
export class WholeServer implements SimulatedServer {
  readonly #database: SystemDb;
  readonly #clock: ManualClock;
  readonly #chance: Chance;
  readonly #plant: Plant | undefined;
  readonly #id: IdSource;
  readonly #org_id: string;
  readonly #caller: Caller;
  #epoch = NODE.epoch;
  #db: MortalDb;
  #plane: Plane;
  #reports: ReportIntake;
  #sessions = new Map<string, Session>();
  #to_push = new Set<string>();
  #view: View | undefined;
  #names: Names = { robots: [], fleets: [], releases: [] };

  constructor(database: SystemDb, clock: ManualClock, chance: Chance, plant?: Plant) {
    this.#database = database;
    this.#clock = clock;
    this.#chance = chance;
    this.#plant = plant;
    this.#id = idSource(clock);
    this.#org_id = this.#id("org");
    const token_id = `tok_of_${this.#org_id}`;
    this.#caller = {
      org_id: this.#org_id,
      role: "admin",
      grants: [{ role: "admin", scopes: [] }],
      limit: [],
      actor: { type: "org_token", id: token_id, name: "operator" },
      token_id,
      orgs: [],
    };
    this.#db = new MortalDb(database);
    this.#plane = this.#newPlane();
    this.#reports = new ReportIntake(this.#plane);
  }

  #newPlane(): Plane {
    const bus = localBus({ log: createLog({ level: "silent" }) });
    bus.subscribe(HINT_PUSH, (message) => (message as { robot_ids: string[] }).robot_ids.forEach((id) => this.#to_push.add(id)));
    const plane = testPlane({
      clock: this.#clock,
      id: this.#id,
      db: this.#db,
      bus,
      link: { ...linkOf(this.#sessions), send: () => true },
      node: { id: NODE.id, epoch: this.#epoch },
    });
    const { settings } = plane;
    return { ...plane, settings: { ...settings, limits: { ...settings.limits, deployment_expiry_hours: EXPIRY_HOURS } } };
  }

  async setUp({ fleets, releases, incompatible_release }: Setting): Promise<Names> {
    const db = this.#database;
    const now = this.#clock.now();
    const org_id = this.#org_id;
    await db.run(sql`insert into org (id, name, status, created_at, updated_at) values (${org_id}, ${org_id}, 'active', ${now}, ${now})`);
    // Dispatch checks whether the token that created a deployment may still deploy.
    await db.run(sql`
      insert into credential (id, hash, kind, org_id, role, prefix, created_at, updated_at)
      values (${this.#caller.token_id}, ${Buffer.from(org_id)}, 'org', ${org_id}, 'admin', 'rf_org_', ${now}, ${now})`);
    const names: Names = { robots: [], fleets: [], releases: [] };
    const seeding = { db: this.#database as Plane["db"], clock: this.#clock, id: this.#id };
    for (const count of fleets) {
      let place: { site_id: string; fleet_id: string } | undefined;
      for (let robot = 0; robot < count; robot += 1) {
        const seeded = await seedRobot(seeding, org_id, place);
        place = { site_id: seeded.site_id, fleet_id: seeded.fleet_id };
        names.robots.push(seeded.robot_id);
      }
      names.fleets.push(place?.fleet_id ?? NO_FLEET);
    }
    await db.run(
      sql`update robot set labels = '{"zone": "a"}' where org_id = ${org_id} and id = any(${names.robots.filter((_, index) => index % 2 === 1)}::text[])`,
    );
    for (const [index, app] of releases.entries()) {
      const id = this.#id("rel");
      names.releases.push(id);
      const kind = index === incompatible_release ? "firmware" : "app_bundle";
      await db.run(sql`
        insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
        values (${org_id}, ${id}, ${`v${index}`}, ${kind}, ${app}, ${"0".repeat(64)}, 3, 'stored', '{}', ${now}, ${now})`);
    }
    this.#names = names;
    return names;
  }

  /** Performs an operation. The server may be killed in one of its transactions. */
  async #doing<T>(fate: Fate, work: () => Promise<T>): Promise<T> {
    this.#db.doom(fate, this.#chance.below(TRANSACTIONS_SURVIVED_MAX));
    let outcome: { value: T } | { error: unknown };
    try {
      outcome = { value: await work() };
    } catch (error) {
      outcome = { error };
    }
    this.#db.doom("lives", 0);
    if (this.#db.dead) throw new Killed();
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }

  async perform(operation: Operation, fate: Fate): Promise<Answer> {
    return await this.#doing(fate, async () => {
      try {
        await this.#operate(operation);
        return "done";
      } catch (error) {
        if (error instanceof Fault && error.status < 500) return "refused";
        throw error;
      }
    });
  }

  async #operate(operation: Operation): Promise<unknown> {
    const db = this.#db.forOrg(this.#org_id);
    const { actor } = this.#caller;
    switch (operation.type) {
      case "create": {
        const { release, robot, fleet, scheduled_in_ms, rollout } = operation;
        const scheduled_at = scheduled_in_ms === null ? undefined : new Date(this.#clock.now().getTime() + scheduled_in_ms).toISOString();
        return await createDeployment(db, this.#plane, this.#caller, {
          release: this.#names.releases[release] ?? "",
          ...(robot === null ? { fleet_id: this.#names.fleets[fleet ?? 0] ?? "" } : { robot_id: this.#names.robots[robot] ?? "" }),
          ...(scheduled_at === undefined ? {} : { scheduled_at }),
          rollout,
        });
      }
      case "cancel":
        return await cancelDeployment(db, this.#plane, this.#org_id, operation.deployment_id, actor, { mode: operation.mode });
      case "pause":
        return await pauseDeployment(db, this.#plane, this.#org_id, operation.deployment_id, actor);
      case "resume":
        return await resumeDeployment(db, this.#plane, this.#org_id, operation.deployment_id, actor);
      case "promote":
        return await promoteDeployment(db, this.#plane, this.#org_id, operation.deployment_id, actor);
      case "rollback":
        return await rollBackDeployment(db, this.#plane, this.#caller, operation.deployment_id);
      case "retry":
        return await retryDeployment(db, this.#plane, this.#caller, operation.deployment_id, undefined);
      case "remove_robot":
        return await removeRobot(this.#plane, db, this.#caller, this.#names.robots[operation.robot] ?? "");
    }
  }

  async connect(robot_id: string, { outbox_id, generation }: { outbox_id: string; generation: number }) {
    const org_id = this.#org_id;
    const [acked_seq = 0] = await reportPositions(this.#db.forOrg(org_id), org_id, [{ robot_id, outbox_id }]);
    let desired: Desired | undefined;
    const hello = {
      robot_id,
      outbox_id,
      generation,
      run_id: outbox_id,
      boot_id: "",
      agent_version: "",
      platform: {},
      kinds: ["app_bundle"],
      streams: [],
    };
    const session = {
      session_id: this.#id("sess"),
      org_id,
      robot_id,
      hello: hello as unknown as Hello,
      ip: "",
      send: (message: ServerMessage) => {
        if (message.type === "desired") desired = message;
        return true;
      },
      close: () => {},
    } as unknown as Session;
    this.#sessions.set(robot_id, session);
    await robotConnected(this.#plane, session);
    await greetRobot(this.#plane, session);
    await robotOnline(this.#plane, org_id, robot_id);
    return { acked_seq, desired };
  }

  async disconnect(robot_id: string): Promise<void> {
    const session = this.#sessions.get(robot_id);
    if (session === undefined) return;
    this.#sessions.delete(robot_id);
    await robotDisconnected(this.#plane, session, "the link was lost");
  }

  async report(robot_id: string, outbox_id: string, report: Report, fate: Fate): Promise<void> {
    if (this.#plant === "ack_before_commit" && fate === "dies_before_commit") {
      this.#db.dead = true;
      throw new Killed(true);
    }
    let acknowledged = false;
    const session = {
      org_id: this.#org_id,
      robot_id,
      hello: { outbox_id },
      send: () => (acknowledged = true),
    } as unknown as Session;
    await this.#doing(fate, () => this.#reports.take(session, report));
    if (!acknowledged) throw new Error("a report was taken and not acknowledged");
    const live = this.#sessions.get(robot_id);
    if (report.body.kind === "observed" && live !== undefined) await answerRobotAhead(this.#plane, live, report.body.generation);
  }

  async turn(loop: Loop, fate: Fate): Promise<boolean> {
    return await this.#doing(fate, () => LOOP_TURNS[loop](this.#db, this.#plane));
  }

  async takePushes(): Promise<ReadonlyMap<string, Desired>> {
    const ids = [...this.#to_push].filter((id) => this.#sessions.has(id));
    this.#to_push.clear();
    return ids.length === 0 ? new Map() : await desiredOf(this.#database.forOrg(this.#org_id), this.#org_id, ids);
  }

  async restart(): Promise<void> {
    this.#sessions.clear();
    this.#to_push.clear();
    this.#epoch += 1;
    this.#db = new MortalDb(this.#database);
    await this.#plane.bus.close();
    this.#plane = this.#newPlane();
    this.#reports = new ReportIntake(this.#plane);
    await sweepDeadNodes(this.#plane);
  }

  async look(): Promise<View> {
    if (this.#view === undefined || this.#db.written) this.#view = await look(this.#database, this.#org_id);
    this.#db.written = false;
    return this.#view;
  }

  async stop(): Promise<void> {
    await this.#plane.bus.close();
    // In the order of the foreign keys: a table comes before the tables that it references. Events and timeline entries have no foreign key.
    await this.#database.run(sql`delete from deployment_event where org_id = ${this.#org_id}`);
    await this.#database.run(sql`delete from timeline_entry where org_id = ${this.#org_id}`);
    await this.#database.run(sql`delete from robot where org_id = ${this.#org_id}`);
    await this.#database.run(sql`delete from fleet where org_id = ${this.#org_id}`);
    await this.#database.run(sql`delete from org where id = ${this.#org_id}`);
  }
}

const LOOP_TURNS: Record<Loop, (db: SystemDb, plane: Plane) => Promise<boolean>> = {
  dispatch: (db, plane) => dispatchQueued(db, plane, new Postponed()),
  fan_out: advanceDeployments,
  rollouts: advanceDeployments,
  cancellations: endPendingTargets,
  rollbacks: endPendingTargets,
  deadlines: endLateSteps,
  expiry: endPendingTargets,
  schedule: (db, plane) => releaseDue(db, plane),
  repair: async (db, plane) => (await repairWaits(db, plane, new Postponed())).woken > 0,
};
