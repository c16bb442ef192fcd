import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Clock, idSource, SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { SECRET_PREFIXES } from "@roamfleet/protocol";
import type { Client } from "@roamfleet/sdk";
import { createLog, LIMIT_DEFAULTS, type Limits, type RunningPlane, type Settings, startPlane as startServer } from "@roamfleet/server";
import { Swarm } from "@roamfleet/swarm/testing";
import type { DbEngine } from "../../packages/server/src/engines/db/index.ts";
import { createTestDatabase, type TestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { createDefaultRules } from "../../packages/server/src/features/alerts/index.ts";
import { createCredential } from "../../packages/server/src/features/tokens/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { Balancer } from "./balancer.ts";
import { checkedFetch } from "./checked-fetch.ts";
import { HarnessOrg } from "./harness-org.ts";
import { NODES, spreadFetch } from "./nodes.ts";
import { PlaneActivity } from "./plane-activity.ts";
import { filesWithSecrets, secretsInText, tablesWithSecrets } from "./secrets.ts";
import { NatsAndS3 } from "./nats-and-s3.ts";
import { shiftedClock } from "./shifted-clock.ts";

export { HarnessOrg, type NewRelease, type NewRobot } from "./harness-org.ts";

export interface HarnessOptions {
  /** Start time of a simulated clock, which only `advance` moves. Without it, the system's clock is used. */
  at?: string;
  settings?: Partial<Omit<Settings, "limits">>;
  limits?: Partial<Limits>;
  /** Number of servers that share one database, NATS and S3 behind a balancer. Default: the number given to the run. */
  nodes?: number;
  /** How far the clock of each node is ahead (negative: behind). `clock_offsets_ms` of the harness changes it for the next start. */
  clock_offsets_ms?: readonly number[];
}

export const ADMIN_TOKEN = "the-admin-token-of-the-tests";

/** A whole plane of one or more nodes in this process: real database, HTTP and WebSockets, and simulated robots on one clock. */
export class Harness implements AsyncDisposable {
  readonly clock: Clock;
  /** The plane's database, for data that no route returns. */
  readonly db: DbEngine;
  readonly swarm: Swarm;
  /** Checks every response against the plane's own OpenAPI documents. */
  readonly fetch: typeof fetch;
  readonly activity: PlaneActivity;
  /** The parsed log lines of the plane. */
  readonly logged: Record<string, unknown>[] = [];
  clock_offsets_ms: readonly number[] = [];
  readonly #database: TestDatabase;
  /** Settings of each node. */
  readonly #settings: readonly Settings[];
  readonly #own = new AsyncDisposableStack();
  readonly #running: RunningPlane[] = [];
  #balancer: Balancer | undefined;
  #url = "";
  #orgs = 0;
  #default: HarnessOrg | undefined;

  private constructor(database: TestDatabase, db: DbEngine, settings: readonly Settings[], clock: Clock, activity: PlaneActivity) {
    this.#database = database;
    this.db = db;
    this.#settings = settings;
    this.clock = clock;
    this.activity = activity;
    this.fetch = checkedFetch(() => this.#url, settings.length > 1 ? spreadFetch : fetch);
    this.swarm = new Swarm({ url: "", clock, activity, fetch: (input, init) => this.fetch(input, init) });
    activity.swarm = this.swarm;
  }

  static async start(options: HarnessOptions): Promise<Harness> {
    await using own = new AsyncDisposableStack();
    const database = own.use(await createTestDatabase({ plane_at: options.at === undefined ? new Date() : new Date(options.at) }));
    const nodes = options.nodes ?? NODES;
    const shared = nodes > 1 ? own.use(await NatsAndS3.start()) : undefined;
    const activity = new PlaneActivity();
    const clock = options.at === undefined ? systemClock : new SimulatedClock({ at: options.at, activity });
    const settings: Omit<Settings, "data_directory"> = {
      listen: { host: "127.0.0.1", port: 0 },
      tls: undefined,
      behind_proxy: [],
      database_url: undefined,
      admin_token: ADMIN_TOKEN,
      log_level: "debug",
      ...shared?.settings,
      ...options.settings,
      // Raise the rate limits, because tests send far more requests a second than users.
      limits: {
        ...LIMIT_DEFAULTS,
        token_requests_per_minute: 1_000_000,
        token_burst: 1_000_000,
        link_accepts_per_second: 0,
        ...options.limits,
      },
    };
    const of_nodes: Settings[] = [];
    for (let node = 0; node < nodes; node += 1) {
      const data_directory = await mkdtemp(path.join(tmpdir(), "roamfleet-plane-"));
      own.defer(() => rm(data_directory, { recursive: true, force: true }));
      // A fixed port, so that a restarted plane has the same address.
      const { host, port } = settings.listen;
      of_nodes.push({ data_directory, ...settings, listen: { host, port: port === 0 ? await freePort(host) : port } });
    }
    const harness = new Harness(database, await database.connect(), of_nodes, clock, activity);
    harness.#own.use(own.move());
    harness.clock_offsets_ms = options.clock_offsets_ms ?? [];
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

  /** The first node, for tests that use internals. */
  get plane(): RunningPlane["plane"] {
    const [first] = this.#running;
    if (first === undefined) throw new Error("the plane is stopped");
    return first.plane;
  }

  /** All nodes with their addresses. */
  get nodes(): readonly RunningPlane[] {
    return this.#running;
  }

  /** Returns the link of a robot on any node. */
  session(robot_id: string): ReturnType<RunningPlane["plane"]["link"]["session"]> {
    for (const { plane } of this.#running) {
      const session = plane.link.session(robot_id);
      if (session !== undefined) return session;
    }
    return undefined;
  }

  /** Connection to this plane's database, for a second server. */
  get database(): TestDatabase["connection"] {
    return this.#database.connection;
  }

  get default_org(): HarnessOrg {
    if (this.#default === undefined) throw new Error("the harness has not started");
    return this.#default;
  }

  get api(): Client {
    return this.default_org.api;
  }

  /** Creates another active org with its client. */
  async org(name = `Org ${(this.#orgs += 1)}`): Promise<HarnessOrg> {
    const id = idSource(this.clock);
    const org_id = id("org");
    const now = this.clock.now();
    await this.db.run(
      sql`insert into org (id, name, status, created_at, updated_at) values (${org_id}, ${name}, 'active', ${now}, ${now})`,
    );
    // As a new org has them. Otherwise, the server would create them after seconds, among the rules of a test.
    await createDefaultRules(this.db, { clock: this.clock, id }, org_id);
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

  /** Whether a robot is connected and, with several nodes, the database names the node that has the robot's present link. */
  async holds(robot_id: string): Promise<boolean> {
    const node = this.#running.find(({ plane }) => plane.link.session(robot_id) !== undefined);
    if (node === undefined || this.#running.length === 1) return node !== undefined;
    const { id, epoch } = node.plane.node;
    return (await this.db.run(sql`select from robot where id = ${robot_id} and node_id = ${id} and node_epoch = ${epoch}`)) === 1;
  }

  /** Advances the simulated clock. Returns when no timer is due and no query, request or frame is in progress. */
  async advance(step: Parameters<SimulatedClock["advance"]>[0]): Promise<void> {
    if (!(this.clock instanceof SimulatedClock)) throw new Error("this harness runs on the system's clock: start it with { at }");
    await this.clock.advance(step);
    await this.settle();
  }

  /** Resolves when no query, request or frame is in progress. Timers that are not due do not count. */
  settle(): Promise<void> {
    return this.activity.idle();
  }

  /** Waits for a condition. Only for harnesses on the system's clock. */
  readonly until = until;

  /** Stops the plane, and keeps its database, files and robots. */
  async stop(): Promise<void> {
    await Promise.all(this.#running.splice(0).map((node) => node.stop()));
  }

  /** The data directory of each node. */
  get data_directories(): string[] {
    return this.#settings.map(({ data_directory }) => data_directory);
  }

  /** Restarts the plane on the same database and files. Robots that were connected reconnect. */
  async restart(): Promise<void> {
    const online = [...this.swarm.robots].filter(({ connected }) => connected);
    await this.stop();
    await this.#startPlane();
    for (const robot of online) await robot.connect();
    await this.settle();
  }

  async #startPlane(): Promise<void> {
    const stream = { write: (line: string) => void this.logged.push(JSON.parse(line) as Record<string, unknown>) };
    for (const [node, settings] of this.#settings.entries()) {
      const log = createLog({ level: settings.log_level, stream, fold: false });
      const clock = shiftedClock(this.clock, this.clock_offsets_ms[node] ?? 0);
      const { activity } = this;
      this.#running.push(await startServer({ settings, clock, log, activity, database: this.#database.connection, check_rows: true }));
    }
    this.#url = await this.#address();
    this.swarm.url = this.#url;
    this.activity.buses = this.#running.map(({ plane }) => plane.bus);
    if (this.#running.length > 1)
      await this.until("every node to be on the bus", () => this.#running.every(({ plane }) => plane.bus.connected));
  }

  /** Returns the URL of the plane: that of its only node or, with several nodes, that of the balancer. */
  async #address(): Promise<string> {
    const [first, ...others] = this.#running;
    if (others.length === 0) return first?.url ?? "";
    this.#balancer ??= this.#own.use(await Balancer.start(() => this.#running.map(({ url }) => url)));
    return this.#balancer.url;
  }

  /**
   * Returns the places where this plane stored a secret in plain text. Every test of a whole plane checks at its end that there are none.
   */
  async #leaks(): Promise<string[]> {
    const log = JSON.stringify(this.logged);
    return [
      ...(await tablesWithSecrets(this.db)).map((table) => `table ${table}`),
      ...secretsInText(log).map((found) => `the log (${found})`),
      ...(log.includes(ADMIN_TOKEN) ? ["the log (admin token)"] : []),
      ...this.#settings.flatMap(({ data_directory }) =>
        filesWithSecrets(data_directory, [...Object.values(SECRET_PREFIXES), ADMIN_TOKEN]).map((file) => `file ${file}`),
      ),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.swarm.stop();
    await this.stop();
    const leaked = await this.#leaks();
    await this.#own.disposeAsync();
    if (leaked.length > 0) throw new Error(`secrets were found in: ${leaked.join(", ")}`);
  }
}

/** Starts a plane on a separate database; use `await using` to clean it up. */
export const startPlane = (options: HarnessOptions = {}): Promise<Harness> => Harness.start(options);
