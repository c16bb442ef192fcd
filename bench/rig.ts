import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type Client } from "@robofleet/sdk";

const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;
const root = path.resolve(import.meta.dirname, "..");

export interface Program {
  pid: number;
  url: string;
  stop(): Promise<void>;
}

/** What the rows measure with: our server as its own process, its database, an org with a token. */
export interface Rig {
  server: Program;
  api: Client;
  token: string;
  org_id: string;
  database: { host: string; port: number; user: string; database: string };
  /** Starts one of bench/limits as a process of its own. */
  startLimit(name: string, env?: Record<string, string>): Promise<Program>;
}

/** Starts the server on a temporary directory with an embedded database, fsync on; everything is gone afterwards. With `profile` the server's CPU profile is written to that directory. */
export async function withRig(profile: string | undefined, work: (rig: Rig) => Promise<void>): Promise<void> {
  const data = await mkdtemp(path.join(tmpdir(), "robofleet-bench-"));
  const programs: Program[] = [];
  try {
    const port = await freePort();
    const server = await startProgram(
      [
        ...(profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`]),
        "packages/server/src/main.ts",
        "serve",
        "--data",
        data,
        "--listen",
        `127.0.0.1:${port}`,
        "--log-level",
        "warn",
        ...["token_requests_per_minute=100000000", "token_burst=100000000", "link_accepts_per_second=0", "health_seconds=3600"].flatMap(
          (limit) => ["--limit", limit],
        ),
      ],
      `http://127.0.0.1:${port}`,
      {},
    );
    programs.push(server);
    const { token, org_id } = await approveOrg(server.url);
    const api = createClient({ base_url: server.url, token });
    await work({
      server,
      api,
      token,
      org_id,
      database: await databaseOf(data),
      startLimit: async (name, env = {}) => {
        const limit_port = await freePort();
        const limit = await startProgram([`bench/limits/${name}.ts`], `http://127.0.0.1:${limit_port}`, {
          ...env,
          PORT: String(limit_port),
        });
        programs.push(limit);
        return limit;
      },
    });
  } finally {
    for (const program of programs.toReversed()) await program.stop();
    await rm(data, { recursive: true, force: true });
  }
}

async function approveOrg(url: string): Promise<{ token: string; org_id: string }> {
  const admin = createClient({ base_url: url });
  const { data: org } = await admin.createOrg({ body: { name: "bench" } });
  const { data } = await admin.approveOrg({ params: { id: org.id } });
  return { token: data.token ?? "", org_id: org.id };
}

/** Where the embedded PostgreSQL listens, as its own pid file says (lines 4 and 5). */
async function databaseOf(data: string): Promise<Rig["database"]> {
  const lines = (await readFile(path.join(data, "postgres", "postmaster.pid"), "utf8")).split("\n");
  return { host: lines[4]?.trim() ?? "", port: Number(lines[3]), user: "robofleet", database: "robofleet" };
}

async function startProgram(args: string[], url: string, env: Record<string, string>): Promise<Program> {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, SERVICE_ADMIN_TOKEN: "", DATABASE_URL: "", ...env },
  });
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${args[0]} ended with ${child.exitCode}`);
    if (await answers(`${url}/readyz`)) break;
    if (performance.now() > deadline) throw new Error(`${args[0]} was not ready in time`);
    await sleep(50);
  }
  return { pid: child.pid ?? 0, url, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(late);
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

/** A port of loopback that nobody listens on at this moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as net.AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
