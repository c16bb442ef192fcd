import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Clock, idSource, SimulatedClock, systemClock } from "@robofleet/clock";
import { SECRET_PREFIXES } from "@robofleet/protocol";
import type { Client } from "@robofleet/sdk";
import { createLog, LIMIT_DEFAULTS, type Limits, type RunningPlane, type Settings, startPlane as startServer } from "@robofleet/server";
import { Swarm } from "@robofleet/swarm";
import type { DbEngine } from "../../packages/server/src/engines/db/index.ts";
import { createTestDatabase, type TestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { createCredential } from "../../packages/server/src/features/tokens/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { checkedFetch } from "./checked-fetch.ts";
import { HarnessOrg } from "./harness-org.ts";
import { PlaneActivity } from "./plane-activity.ts";
import { filesWithSecrets, secretsInText, tablesWithSecrets } from "./secrets.ts";

export { HarnessOrg, type NewRelease, type NewRobot } from "./harness-org.ts";

export interface HarnessOptions {
  /** The time at which a simulated clock stands still; without it time passes by itself. */
  at?: string;
  settings?: Partial<Omit<Settings, "limits">>;
  limits?: Partial<Limits>;
}

export const ADMIN_TOKEN = "the-admin-token-of-the-tests";
const WAIT_MS = 30_000;
const POLL_MS = 20;

/** A whole plane in this process: real database, HTTP and WebSockets, and simulated robots on one clock. */
export class Harness implements AsyncDisposable {
  readonly clock: Clock;
  /** The database as the plane sees it, for what no route tells. */
  readonly db: DbEngine;
  readonly swarm: Swarm;
  /** Checks every answer against the plane's own documents. */
  readonly fetch: typeof fetch;
  readonly activity: PlaneActivity;
  /** What the plane logged, parsed. */
  readonly logged: Record<string, unknown>[] = [];
  readonly #database: TestDatabase;
  readonly #settings: Settings;
  #running: RunningPlane | undefined;
  #url = "";
  #orgs = 0;
  #default: HarnessOrg | undefined;

  private constructor(database: TestDatabase, db: DbEngine, settings: Settings, clock: Clock, activity: PlaneActivity) {
    this.#database = database;
    this.db = db;
    this.#settings = settings;
    this.clock = clock;
    this.activity = activity;
    this.fetch = checkedFetch(() => this.#url);
    this.swarm = new Swarm({ url: "", clock, activity, fetch: (input, init) => this.fetch(input, init) });
    activity.swarm = this.swarm;
  }

  static async start(options: HarnessOptions): Promise<Harness> {
    const database = await createTestDatabase();
    const directory = await mkdtemp(path.join(tmpdir(), "robofleet-plane-"));
    const activity = new PlaneActivity();
    const clock = options.at === undefined ? systemClock : new SimulatedClock({ at: options.at, activity });
    const settings: Settings = {
      data_directory: directory,
      listen: { host: "127.0.0.1", port: 0 },
      tls: undefined,
      behind_proxy: [],
      database_url: undefined,
      admin_token: ADMIN_TOKEN,
      log_level: "debug",
      ...options.settings,
      // A test sends in a second what a person sends in an hour.
      limits: {
        ...LIMIT_DEFAULTS,
        token_requests_per_minute: 1_000_000,
        token_burst: 1_000_000,
        link_accepts_per_second: 0,
        ...options.limits,
      },
    };
    const harness = new Harness(database, await database.connect(), settings, clock, activity);
    try {
      await harness.#startPlane();
      harness.#default = await harness.org("Default");
    } catch (error) {
      await harness[Symbol.asyncDispose]();
      throw error;
    }
    return harness;
  }

  get url(): string {
    return this.#url;
  }

  get plane(): RunningPlane["plane"] {
    if (this.#running === undefined) throw new Error("the plane is stopped");
    return this.#running.plane;
  }

  get default_org(): HarnessOrg {
    if (this.#default === undefined) throw new Error("the harness has not started");
    return this.#default;
  }

  get api(): Client {
    return this.default_org.api;
  }

  /** Another org, active, with a client of its own. */
  async org(name = `Org ${(this.#orgs += 1)}`): Promise<HarnessOrg> {
    const id = idSource(this.clock);
    const org_id = id("org");
    const now = this.clock.now();
    await this.db.run(
      sql`insert into org (id, name, status, created_at, updated_at) values (${org_id}, ${name}, 'active', ${now}, ${now})`,
    );
    const { secret } = await createCredential(this.db, { clock: this.clock, id }, { kind: "org", org_id, role: "admin", label: "harness" });
    return new HarnessOrg(this, org_id, secret);
  }

  readonly token: HarnessOrg["token"] = (...args) => this.default_org.token(...args);
  readonly site: HarnessOrg["site"] = (...args) => this.default_org.site(...args);
  readonly fleet: HarnessOrg["fleet"] = (...args) => this.default_org.fleet(...args);
  readonly homeFleet: HarnessOrg["homeFleet"] = () => this.default_org.homeFleet();
  readonly enrollmentKey: HarnessOrg["enrollmentKey"] = (...args) => this.default_org.enrollmentKey(...args);
  readonly release: HarnessOrg["release"] = (...args) => this.default_org.release(...args);
  readonly upload: HarnessOrg["upload"] = (...args) => this.default_org.upload(...args);
  readonly enrollRobot: HarnessOrg["enrollRobot"] = (...args) => this.default_org.enrollRobot(...args);
  readonly enrollRobots: HarnessOrg["enrollRobots"] = (...args) => this.default_org.enrollRobots(...args);
  readonly deploy: HarnessOrg["deploy"] = (...args) => this.default_org.deploy(...args);
  readonly deployConfig: HarnessOrg["deployConfig"] = (...args) => this.default_org.deployConfig(...args);
  readonly deployment: HarnessOrg["deployment"] = (...args) => this.default_org.deployment(...args);
  readonly events: HarnessOrg["events"] = (...args) => this.default_org.events(...args);
  readonly targets: HarnessOrg["targets"] = (...args) => this.default_org.targets(...args);

  /** Moves the simulated clock; returns when no timer is due and no query, request or frame is under way. */
  async advance(step: Parameters<SimulatedClock["advance"]>[0]): Promise<void> {
    if (!(this.clock instanceof SimulatedClock)) throw new Error("this harness runs on the system's clock: start it with { at }");
    await this.clock.advance(step);
    await this.settle();
  }

  /** Resolves when no query, request or frame is under way; timers that are not due do not count. */
  settle(): Promise<void> {
    return this.activity.idle();
  }

  /** Resolves with the first answer that is not undefined or false; for harnesses on the system's clock. */
  async until<T>(what: string, look: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const seen = await look();
      if (seen !== undefined && seen !== false) return seen;
      if (performance.now() > deadline) throw new Error(`waited ${WAIT_MS} ms in vain for: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Stops the plane; its database, files and robots stay. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.stop();
  }

  /** Starts a stopped plane, or stops it first, on the same database and files. Robots that were connected come back. */
  async restart(): Promise<void> {
    const online = [...this.swarm.robots].filter(({ connected }) => connected);
    await this.stop();
    await this.#startPlane();
    for (const robot of online) await robot.connect();
    await this.settle();
  }

  async #startPlane(): Promise<void> {
    const stream = { write: (line: string) => void this.logged.push(JSON.parse(line) as Record<string, unknown>) };
    const log = createLog({ level: this.#settings.log_level, stream });
    this.#running = await startServer({
      settings: this.#settings,
      clock: this.clock,
      log,
      activity: this.activity,
      database: this.#database.connection,
      check_rows: true,
    });
    this.#url = this.#running.url;
    // Clients know this address: the next start listens there again.
    this.#settings.listen = { host: this.#settings.listen.host, port: Number(new URL(this.#url).port) };
    this.swarm.url = this.#url;
  }

  /** Where this run left a secret that it issued; every test of a whole plane looks, at its end. */
  async #leaks(): Promise<string[]> {
    const log = JSON.stringify(this.logged);
    return [
      ...(await tablesWithSecrets(this.db)).map((table) => `table ${table}`),
      ...secretsInText(log).map((found) => `the log (${found})`),
      ...(log.includes(ADMIN_TOKEN) ? ["the log (the admin token)"] : []),
      ...filesWithSecrets(this.#settings.data_directory, [...Object.values(SECRET_PREFIXES), ADMIN_TOKEN]).map((file) => `file ${file}`),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.swarm.stop();
    await this.stop();
    const leaked = await this.#leaks();
    await this.#database.drop();
    await rm(this.#settings.data_directory, { recursive: true, force: true });
    if (leaked.length > 0) throw new Error(`a secret was left behind in: ${leaked.join(", ")}`);
  }
}

/** Starts a plane on a database of its own; hold it by `await using`, and nothing is left of it afterwards. */
export const startPlane = (options: HarnessOptions = {}): Promise<Harness> => Harness.start(options);
