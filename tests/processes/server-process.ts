import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { type Client, createClient } from "@roamfleet/sdk";
import { type Connection, runningDatabase } from "../../packages/server/src/engines/db/embedded/index.ts";
import { copyDirectory, createTestDatabase, directoryTemplate } from "../../packages/server/src/engines/db/testing/index.ts";
import { Balancer } from "../harness/balancer.ts";
import { NODES, spreadFetch } from "../harness/nodes.ts";
import { IS_FULL } from "../harness/promise.ts";
import { refuseSecrets } from "../harness/secrets.ts";
import { NatsAndS3 } from "../harness/nats-and-s3.ts";
import { failpointFlags, type Found, processesNaming, Program } from "./process.ts";

export interface ServerOptions {
  /** Host and port, port 0 for any; default: 127.0.0.1 with any port. */
  listen?: string;
  /** Parent of the server's data directory, such as a small disk. The database is then created there instead of copied. */
  place?: string;
  args?: readonly string[];
  env?: Record<string, string>;
  /** Number of servers that share a test database, NATS and S3 behind a balancer. Default: the number given to the run. */
  nodes?: number;
}

/**
 * `roamfleet serve` in a separate process, with its own PostgreSQL in a data directory that is kept across kills. It begins with a copy of
 * the test run's migrated database. With several nodes, this is the first node, which tests kill and restart.
 */
export class ServerProcess implements AsyncDisposable {
  readonly data: string;
  /** Added to the environment of the next start. */
  env: Record<string, string> = {};
  readonly #options: ServerOptions;
  /** Listen address of every start. */
  readonly #listen: string;
  readonly #programs: Program[] = [];
  /** The other nodes, and the services that all nodes share. */
  readonly #beside = new AsyncDisposableStack();
  program: Program;
  /** URL of the server, or of the balancer. */
  url = "";
  /** URL of this node. */
  own_url = "";
  /** All nodes, this one first. */
  nodes: readonly ServerProcess[] = [this];
  #spread: typeof fetch | undefined;
  #shared_database: Connection | undefined;

  /** `copied`: a database directory to begin with, and the parent of the data directory. */
  private constructor(options: ServerOptions, listen: string, copied: { template: string; place: string } | undefined) {
    this.#options = options;
    this.#listen = listen;
    this.data = mkdtempSync(path.join(copied?.place ?? options.place ?? tmpdir(), "roamfleet-server-"));
    if (copied !== undefined) copyDirectory(copied.template, path.join(this.data, "postgres"));
    this.program = this.run();
  }

  static async start({ nodes = NODES, ...options }: ServerOptions = {}): Promise<ServerProcess> {
    if (nodes > 1) return ServerProcess.#startSeveral(nodes, options);
    // Creating and migrating a database takes seconds, so use a copy. Tests that set `place` need the real steps, because they test disk
    // usage.
    const begins_empty = options.place !== undefined || options.env?.DATABASE_URL !== undefined;
    const copied = begins_empty ? undefined : await directoryTemplate();
    // In the full size, use a real disk: promised times are measured with one, and a full run may store gigabytes.
    if (copied !== undefined && IS_FULL) copied.place = tmpdir();
    const server = new ServerProcess(options, await withPort(options.listen ?? "127.0.0.1:0"), copied);
    try {
      server.url = server.own_url = await server.#listening();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  static async #startSeveral(count: number, options: ServerOptions): Promise<ServerProcess> {
    await using own = new AsyncDisposableStack();
    const { env } = own.use(await NatsAndS3.start());
    const database = options.env?.DATABASE_URL === undefined ? own.use(await createTestDatabase()).connection : undefined;
    const its = database && { DATABASE_URL: databaseUrl(database) };
    const shared = { ...options, env: { ...env, ...its, ...options.env }, nodes: 1 };
    const first = await ServerProcess.start(shared);
    first.#shared_database = database;
    const beside = first.#beside;
    beside.use(own.move());
    try {
      const others = await Promise.all(Array.from({ length: count - 1 }, async () => beside.use(await ServerProcess.start(shared))));
      first.nodes = [first, ...others];
      first.url = beside.use(await Balancer.start(() => first.nodes.map(({ own_url }) => own_url))).url;
      first.#spread = spreadFetch;
      return first;
    } catch (error) {
      await first[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts a server on the same data, without waiting until it listens. */
  run(listen = this.#listen): Program {
    const program = new Program(
      "packages/server/src/main.ts",
      ["serve", "--data", this.data, "--listen", listen, ...failpointFlags(this.env), ...(this.#options.args ?? [])],
      {
        ...this.#options.env,
        ...this.env,
      },
    );
    this.#programs.push(program);
    return program;
  }

  /** Restarts the server at the same address. */
  async restart(): Promise<void> {
    this.program = this.run();
    await this.#listening();
  }

  /** URL for clients on this machine. */
  get address(): string {
    return this.url.replace("//0.0.0.0:", "//127.0.0.1:");
  }

  /** Certificate of the authority that a server with `--tls auto` created. */
  get ca(): string | undefined {
    const file = path.join(this.data, "tls", "ca.pem");
    return existsSync(file) ? readFileSync(file, "utf8") : undefined;
  }

  /** Creates an org through the admin routes, which are available on this machine, and returns its client. */
  async org(name: string): Promise<{ api: Client; token: string }> {
    const admin = createClient({ base_url: this.address, ca: this.ca, admin_token: this.#options.env?.SERVICE_ADMIN_TOKEN });
    const { data } = await admin.createOrg({ body: { name } });
    const { token } = (await admin.approveOrg({ params: { id: data.id } })).data;
    if (token === null) throw new Error("the approval returned no token");
    return { token, api: createClient({ base_url: this.address, ca: this.ca, token, ...(this.#spread && { fetch: this.#spread }) }) };
  }

  /** Returns the connection to the server's own database, or to the database that all nodes share. */
  async database(): Promise<Connection> {
    const connection = this.#shared_database ?? (await runningDatabase(path.join(this.data, "postgres")));
    if (connection === undefined) throw new Error("the server's database is not running");
    return connection;
  }

  /** Returns the processes that use the data directory: the server, PostgreSQL and its children. */
  processes(): Found[] {
    return processesNaming(this.data);
  }

  #listening(): Promise<string> {
    return this.program.until(
      "the server to listen",
      () => /"url":"([^"]+)","data":"[^"]+","msg":"listening"/.exec(this.program.output)?.[1],
      // On a busy machine, creating the database and keys takes minutes; the output shows the progress.
      { progress: () => this.program.output.length },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.env = {};
    if (this.program.running) await this.program.stop();
    else if (this.processes().length > 0 && this.own_url !== "") {
      // If the server was killed, its PostgreSQL keeps running by design. Start a server, which takes over that PostgreSQL and stops it.
      await this.restart();
      await this.program.stop();
    }
    try {
      await this.#beside.disposeAsync();
      refuseSecrets("the server", { directory: this.data, outputs: this.#programs.map(({ output }) => output) });
    } finally {
      rmSync(this.data, { recursive: true, force: true });
    }
  }
}

/** A reserved port: no other process gets it while the server is down. */
async function withPort(listen: string): Promise<string> {
  const host = listen.replace(/:0$/, "");
  return host === listen ? listen : `${host}:${await freePort(host)}`;
}

/** Returns the DATABASE_URL of a test database. */
export const databaseUrl = ({ host, port, user, database }: { host: string; port: number; user: string; database: string }): string =>
  `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;

/** Returns the address of a server's own PostgreSQL, from its postmaster.pid. */
export function ownDatabase({ data }: ServerProcess): { host: string; port: number; user: string; database: string } {
  const lines = readFileSync(path.join(data, "postgres", "postmaster.pid"), "utf8").split("\n");
  return { host: lines[4]?.trim() ?? "", port: Number(lines[3]), user: "roamfleet", database: "roamfleet" };
}
