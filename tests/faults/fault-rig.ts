import type { TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { type Client, createClient } from "@roamfleet/sdk";
import { SimulatedRobot, Swarm } from "@roamfleet/swarm/testing";
import { Ledger } from "../crash/ledger.ts";
import { Balancer } from "../harness/balancer.ts";
import { spreadFetch } from "../harness/nodes.ts";
import { promiseSize } from "../harness/promise.ts";
import { NatsAndS3 } from "../harness/nats-and-s3.ts";
import { FaultNode } from "./fault-node.ts";
import { FaultNetwork, skipNetworks } from "./network.ts";
import { PostgresServer, SKIP_POSTGRES } from "./postgres-server.ts";
import { SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";

const NODES = 3;
const ROBOTS = promiseSize({ test: 5, full: 20 });
const HEALTH_EVERY_MS = 500;
const ADMIN_TOKEN = "the-admin-token-of-the-fault-tests";

/** Returns why this machine cannot run fault tests, or false. */
export const skipFaults = (): string | false => SKIP_NATS || SKIP_POSTGRES || skipNetworks();

/** Returns why a fault test that takes too long for `npm test` is skipped, or false. */
export const skipUnlessFull = (): string | false =>
  promiseSize({ test: 0, full: 1 }) === 0 ? "takes too long; run by npm run promises" : skipFaults();

export interface FaultRigOptions {
  /** Added to the environment of each node. */
  env?: (node: number) => Record<string, string>;
  /** Simulated robots, connected through the balancer. */
  robots?: number;
  /** Whether to start a standby of the database. */
  standby?: boolean;
}

/** Three nodes on separate machines, with PostgreSQL, NATS and S3, behind a balancer that checks /readyz. */
export class FaultRig implements AsyncDisposable {
  readonly network: FaultNetwork;
  readonly postgres: PostgresServer;
  readonly standby: PostgresServer | undefined;
  readonly services: NatsAndS3;
  readonly nodes: readonly FaultNode[];
  readonly swarm: Swarm;
  api!: Client;
  org_id = "";
  token = "";
  /** Enrollment key for robots. */
  key = "";
  ledger!: Ledger;
  robots: SimulatedRobot[] = [];
  /** URL of the present primary database. After a failover, that is the former standby. */
  #primary: string;
  readonly #own: AsyncDisposableStack;
  readonly #healthy: Set<FaultNode>;
  #balancer!: Balancer;

  private constructor(
    own: AsyncDisposableStack,
    parts: Pick<FaultRig, "network" | "postgres" | "standby" | "services" | "nodes">,
    primary: string,
  ) {
    this.#own = own;
    this.network = parts.network;
    this.postgres = parts.postgres;
    this.standby = parts.standby;
    this.services = parts.services;
    this.nodes = parts.nodes;
    this.#primary = primary;
    this.#healthy = new Set(parts.nodes);
    this.swarm = new Swarm({ url: "", reconnects: true });
  }

  static async start({ env = () => ({}), robots = ROBOTS, standby = false }: FaultRigOptions = {}): Promise<FaultRig> {
    await using own = new AsyncDisposableStack();
    const network = own.use(new FaultNetwork());
    const { addresses } = network;
    const postgres = own.use(await PostgresServer.start(addresses.postgres));
    const copy = standby ? own.use(await postgres.addStandby(addresses.standby)) : undefined;
    const services = own.use(await NatsAndS3.start(addresses.nats, addresses.s3));
    // With a standby, nodes connect through a balancer that points to the primary, like HAProxy or a virtual address in production.
    const where = { primary: postgres.url() };
    const door = standby ? own.use(await Balancer.start(() => [where.primary], addresses.test)) : undefined;
    const DATABASE_URL =
      door === undefined ? postgres.url() : postgres.url(addresses.test).replace(/:\d+\//, `:${new URL(door.url).port}/`);
    const shared = { ...services.env, DATABASE_URL, SERVICE_ADMIN_TOKEN: ADMIN_TOKEN };
    const nodes: FaultNode[] = [];
    for (let number = 0; number < NODES; number += 1)
      nodes.push(own.use(new FaultNode(network.addMachine(), addresses.test, { ...shared, ...env(number) })));
    const [first, ...others] = nodes;
    // The first node creates the tables.
    await first?.up();
    await Promise.all(others.map((node) => node.up()));
    const rig = new FaultRig(own.move(), { network, postgres, standby: copy, services, nodes }, where.primary);
    rig.#moveDatabase = (url) => (where.primary = url);
    try {
      await rig.#begin(robots);
      return rig;
    } catch (error) {
      await rig[Symbol.asyncDispose]();
      throw error;
    }
  }

  #moveDatabase: (url: string) => void = () => {};

  /** Points the nodes to the standby. */
  failOver(): void {
    if (this.standby !== undefined) this.#moveDatabase((this.#primary = this.standby.url()));
  }

  /** URL for clients. */
  get url(): string {
    return this.#balancer.url;
  }

  /** The present primary database server. */
  get database(): PostgresServer {
    return this.standby !== undefined && this.#primary === this.standby.url() ? this.standby : this.postgres;
  }

  /** Returns the node of a robot's link, according to the database. */
  async nodeOf(robot_id: string): Promise<FaultNode> {
    return until("the robot to be connected to a node", async () => {
      const [row] = await this.database.query<{ node_id: string | null }>(`select node_id from robot where id = '${robot_id}'`);
      return this.nodes.find(({ id }) => id === row?.node_id);
    });
  }

  /** Whether the other nodes declared a node dead. */
  async isOver(node: FaultNode): Promise<boolean> {
    return (await this.database.query(`select 1 from node where id = '${node.id}' and is_over`)).length === 1;
  }

  /** Returns the sum of the nodes' numbers of robot links. */
  async links(): Promise<number> {
    let count = 0;
    for (const { url } of this.nodes) {
      const answer = await fetch(`${url}/metrics`, { headers: { "x-service-admin-token": ADMIN_TOKEN } });
      count += Number(/^roamfleet_robots_connected (\d+)$/m.exec(await answer.text())?.[1]);
    }
    return count;
  }

  /** Returns the number of online robots. */
  async online(): Promise<number> {
    return (await this.api.listRobots({ query: { status: "online", limit: 1_000 } })).items.length;
  }

  async #begin(robots: number): Promise<void> {
    for (const node of this.nodes) await until("a node to be ready", () => node.ready());
    this.#balancer = this.#own.use(await Balancer.start(() => this.#served().map(({ url }) => url)));
    this.#watchHealth();
    const admin = createClient({ base_url: this.url, admin_token: ADMIN_TOKEN, fetch: spreadFetch });
    const { id } = (await admin.createOrg({ body: { name: "Faults" } })).data;
    this.org_id = id;
    this.token = (await admin.approveOrg({ params: { id } })).data.token ?? "";
    this.api = createClient({ base_url: this.url, token: this.token, fetch: spreadFetch });
    this.ledger = new Ledger(() => this.url, this.token);
    const site_id = (await this.api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await this.api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    this.key = (await this.api.createEnrollmentKey({ body: { site_id, fleet_id } })).data.key ?? "";
    this.swarm.url = this.url;
    this.#own.defer(() => this.swarm.stop());
    for (let number = 1; number <= robots; number += 1) {
      const robot = await SimulatedRobot.enroll(this.swarm, { key: this.key, name: `cart-${number}` });
      // A node without a connection to its services refuses the robot at first. The robot then reconnects automatically.
      await robot.connect().catch(() => {});
      await until("the robot to be connected", () => robot.connected);
      this.robots.push(robot);
    }
  }

  /** Returns the ready nodes. If none is ready, returns all nodes, because a slow machine must not count as an outage. */
  #served(): readonly FaultNode[] {
    return this.#healthy.size > 0 ? [...this.#healthy] : this.nodes;
  }

  /** Checks nodes like a load balancer: when a node is not ready, it gets no new connections, and its present connections are ended. */
  #watchHealth(): void {
    let ended = false;
    const watch = async (node: FaultNode): Promise<void> => {
      while (!ended) {
        const ready = await node.ready();
        if (ready) this.#healthy.add(node);
        else if (this.#healthy.delete(node)) this.#balancer.cut(node.url);
        await new Promise((resolve) => setTimeout(resolve, HEALTH_EVERY_MS));
      }
    };
    const watching = this.nodes.map(watch);
    this.#own.defer(async () => {
      ended = true;
      await Promise.all(watching);
    });
  }

  /** Prints the end of each node's log when a test fails. */
  explain(t: TestContext): void {
    for (const node of this.nodes) t.diagnostic(`${node.url}: ${node.words}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.disposeAsync();
  }
}
