import { hash, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Embedded, runningDatabase, startEmbedded } from "../../packages/server/src/engines/db/embedded/index.ts";
import { silentLog } from "../../packages/server/src/engines/db/testing/index.ts";
import { type Data, Ledger } from "../crash/ledger.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";

export interface UnderFire extends AsyncDisposable {
  server: ServerProcess;
  ledger: Ledger;
  /** Kills PostgreSQL, which then restarts automatically. Returns whether it was running. */
  killPostgres: (signal: NodeJS.Signals) => boolean;
}

/** A server with its own PostgreSQL, or several nodes that share one, an org in it, and a client that records responses. */
export async function startUnderFire(nodes = 1): Promise<UnderFire> {
  await using own = new AsyncDisposableStack();
  const shared = nodes > 1 ? own.use(await sharedPostgres()) : undefined;
  const server = own.use(
    await ServerProcess.start({
      args: ["--limit", "token_requests_per_minute=100000000", "--limit", "token_burst=100000000"],
      env: shared === undefined ? {} : { DATABASE_URL: databaseUrl(shared.postgres.connection) },
      nodes,
    }),
  );
  const { token } = await server.org("Under fire");
  const beside = own.move();
  return {
    server,
    ledger: new Ledger(() => server.url, token),
    killPostgres: (signal) => (shared === undefined ? killPostgres(server, signal) : process.kill(shared.postgres.pid, signal)),
    [Symbol.asyncDispose]: () => beside.disposeAsync(),
  };
}

/** Starts a PostgreSQL with durable writes, which other tests do without. Restarts it whenever it ends. */
async function sharedPostgres(): Promise<{ postgres: Embedded } & AsyncDisposable> {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-shared-"));
  const postgres = await startEmbedded({ directory: path.join(directory, "postgres"), clock: systemClock, log: silentLog });
  return {
    postgres,
    async [Symbol.asyncDispose]() {
      await postgres.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Process id of the server's own postmaster; undefined while it does not run. */
function postmaster(server: ServerProcess): number | undefined {
  const [line] = pidFile(path.join(server.data, "postgres", "postmaster.pid")).split("\n", 1);
  return server.processes().find(({ pid }) => pid === Number(line))?.pid;
}

/** Returns an empty text if the file does not exist, because PostgreSQL may delete it at any moment. */
function pidFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return "";
  }
}

/** Connection settings of the server's own PostgreSQL. */
export async function databaseOf(server: ServerProcess): Promise<{ host: string; port: number; user: string; database: string }> {
  return until("PostgreSQL to run", () => runningDatabase(path.join(server.data, "postgres")));
}

/** Sends a signal to the main process of PostgreSQL. Returns whether it was running. */
export function killPostgres(server: ServerProcess, signal: NodeJS.Signals = "SIGKILL"): boolean {
  const pid = postmaster(server);
  if (pid === undefined) return false;
  process.kill(pid, signal);
  return true;
}

/** Makes writes of several kinds, `parallel` at a time, and retries each until it is acknowledged. */
export class Writers {
  readonly ledger: Ledger;
  done = 0;
  #robot_id = "";
  #release_id = "";
  /** Scheduled time of deployments: far in the future, so that they are never due. */
  readonly #scheduled_at = new Date(Date.now() + 300 * 24 * 3_600_000).toISOString();

  constructor(ledger: Ledger) {
    this.ledger = ledger;
  }

  /** Creates a robot and a release for deployments. */
  async prepare(): Promise<void> {
    const { ledger } = this;
    const site = await ledger.post("/api/sites", { name: "Yard" });
    const fleet = await ledger.post("/api/fleets", { name: "Carts", site_id: site.id });
    const key = await ledger.post("/api/enrollment-keys", { site_id: site.id, fleet_id: fleet.id });
    const { text } = await ledger.send("POST", "/agent/enroll", { key: key["key"], public_key: randomBytes(32).toString("base64") });
    this.#robot_id = (JSON.parse(text) as { data: { robot_id: string } }).data.robot_id;
    const bytes = Buffer.from("a file");
    const about = { tag: "one", kind: "file", artifact_sha256: hash("sha256", bytes), artifact_size: bytes.length };
    this.#release_id = (await ledger.post("/api/releases", about)).id;
    await ledger.send("PUT", `/api/releases/${this.#release_id}/artifact`, bytes);
  }

  async write(count: number, parallel: number): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      for (let n = next++; n < count; n = next++) {
        await this.#one(n);
        this.done += 1;
      }
    };
    await Promise.all(Array.from({ length: parallel }, work));
  }

  #one(n: number): Promise<Data> {
    switch (n % 5) {
      case 0:
        return this.ledger.post("/api/sites", { name: `Site ${n}` });
      case 1:
        return this.ledger.post("/api/deployments", {
          release: this.#release_id,
          robot_id: this.#robot_id,
          scheduled_at: this.#scheduled_at,
        });
      default:
        return this.ledger.post("/api/configs", { key: `key-${n}`, value: n, namespace: `space-${n % 50}`, scope: "org" });
    }
  }
}
