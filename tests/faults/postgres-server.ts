import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chownSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";

const BIN = "/usr/lib/postgresql/15/bin";
const PORT = 5432;
const owner = idsOf("postgres");

/** Why PostgreSQL cannot be started on the network, or false. */
export const SKIP_POSTGRES: string | false =
  (!existsSync(`${BIN}/postgres`) || owner === undefined) && "PostgreSQL 15 is not installed (apt-get install postgresql-15)";

/** PostgreSQL as in production: on an address of the network, optionally with a standby. */
export class PostgresServer implements AsyncDisposable {
  readonly address: string;
  readonly #directory: string;
  readonly #data: string;
  #process: ChildProcess | undefined;

  private constructor(address: string) {
    this.address = address;
    this.#directory = mkdtempSync(path.join(tmpdir(), "roamfleet-postgres-"));
    this.#data = path.join(this.#directory, "data");
    if (owner !== undefined) chownSync(this.#directory, owner.uid, owner.gid);
  }

  static async start(address: string): Promise<PostgresServer> {
    const server = new PostgresServer(address);
    server.#run("initdb", "--no-sync", "-U", "roamfleet", "-A", "trust", "-E", "UTF8", "-D", server.#data);
    const lines = ["host all roamfleet 10.0.0.0/8 trust", "host replication roamfleet 10.0.0.0/8 trust"];
    appendFileSync(path.join(server.#data, "pg_hba.conf"), `${lines.join("\n")}\n`);
    await server.up();
    await server.query("create database roamfleet", "postgres");
    return server;
  }

  /** Starts a synchronous standby at another address: from now on, commits wait until the standby has them. */
  async addStandby(address: string): Promise<PostgresServer> {
    const standby = new PostgresServer(address);
    standby.#run("pg_basebackup", "-h", this.address, "-p", String(PORT), "-U", "roamfleet", "-R", "-c", "fast", "-D", standby.#data);
    await standby.up();
    await this.query("alter system set synchronous_standby_names = '*'");
    await this.query("select pg_reload_conf()");
    const STREAMING = "select 1 from pg_stat_replication where sync_state = 'sync'";
    await until("the standby to follow", async () => (await this.query(STREAMING)).length === 1);
    return standby;
  }

  /** Returns the DATABASE_URL. `host` is the address of a proxy. */
  url(host = this.address): string {
    return `postgres://roamfleet@${host}:${PORT}/roamfleet`;
  }

  get port(): number {
    return PORT;
  }

  /** Starts PostgreSQL. Resolves when it accepts queries. */
  async up(): Promise<void> {
    const options = [`listen_addresses=${this.address}`, `port=${PORT}`, `unix_socket_directories=${this.#directory}`];
    const settings = ["max_connections=120", "wal_level=replica", "shared_buffers=32MB"];
    const words = [...options, ...settings].flatMap((option) => ["-c", option]);
    this.#process = spawn(`${BIN}/postgres`, ["-D", this.#data, ...words], { ...owner, stdio: "ignore", cwd: this.#directory });
    await until("PostgreSQL to answer", () => this.query("select 1", "postgres"), { despite_errors: true });
  }

  /** Stops PostgreSQL: SIGQUIT like a crash, SIGINT like an operator's restart. */
  async down(signal: "SIGQUIT" | "SIGINT"): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running === undefined || running.exitCode !== null) return;
    const ended = once(running, "exit");
    running.kill(signal);
    await ended;
  }

  /** Promotes a standby to primary. */
  async promote(): Promise<void> {
    await this.query("select pg_promote()");
    await until("the standby to be the primary", async () => (await this.query("select 1 where not pg_is_in_recovery()")).length === 1);
  }

  async query<R extends pg.QueryResultRow>(text: string, database = "roamfleet"): Promise<R[]> {
    const client = await this.connect(database);
    try {
      return (await client.query<R>(text)).rows;
    } finally {
      await client.end();
    }
  }

  async connect(database = "roamfleet"): Promise<pg.Client> {
    const client = new pg.Client({ host: this.address, port: PORT, user: "roamfleet", database });
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  #run(program: string, ...words: string[]): void {
    const { status, stderr } = spawnSync(`${BIN}/${program}`, words, { ...owner, cwd: this.#directory, encoding: "utf8" });
    if (status !== 0) throw new Error(`${program}: ${stderr}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down("SIGQUIT");
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Returns the ids of a user, because PostgreSQL does not run as root. */
function idsOf(user: string): { uid: number; gid: number } | undefined {
  const [uid, gid] = ["-u", "-g"].map((flag) => spawnSync("id", [flag, user], { encoding: "utf8" }));
  if (uid?.status !== 0 || gid?.status !== 0) return undefined;
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
}
