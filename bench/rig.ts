import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { createClient, type Client } from "@roamfleet/sdk";
import { SERVER_NODE_FLAGS } from "../bin/launch.mjs";
import { openAuthority } from "../packages/server/src/kernel/tls/certificate-authority.ts";

/** A generous timeout, because creating a database is slow on a busy machine. */
const READY_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 20_000;
const root = path.resolve(import.meta.dirname, "..");

export interface Program {
  pid: number;
  url: string;
  stop(): Promise<void>;
}

/** Lets a limit that serves `/run` do its work once. Throws if the work failed. */
export async function runLimit({ url }: Program): Promise<void> {
  const response = await fetch(`${url}/run`);
  const text = await response.text();
  if (!response.ok) throw new Error(`the limit answered ${response.status}: ${text}`);
}

/** Options of the server that a row needs. */
export interface ServerOptions {
  tls?: boolean;
  /** Enables `collectGarbage`. */
  collectable?: boolean;
  /** The product's own intervals of heartbeats and health, for rows that measure them. */
  default_intervals?: boolean;
}

export interface ProgramOptions {
  /** Enables `collectGarbage`. */
  collectable?: boolean;
  /** Flags of Node.js with which the program starts in production. */
  node_flags?: readonly string[];
}

/** Certificate of 127.0.0.1 as created by `--tls auto`, for our server and for the limits. */
export interface Certificate {
  ca: string;
  ca_file: string;
  cert_file: string;
  key_file: string;
}

/** The environment of a row: our server as a separate process, its database, an org with a token. */
export interface Rig {
  readonly server: Program;
  /** Uses fewer rounds and robots, to check only that a row works. */
  readonly quick: boolean;
  /** Robots in the database, for the growth rows; smallest first. */
  readonly growth: readonly number[];
  readonly certificate: Certificate | undefined;
  api: Client;
  token: string;
  org_id: string;
  readonly database: { host: string; port: number; user: string; database: string };
  /** Restarts the server on the same data, so that its memory is that of a fresh server. */
  restart(): Promise<void>;
  /**
   * Starts a program of bench/limits or bench/ours, by its path without `.ts`. The program receives its port, and the certificate if the
   * rig has one.
   */
  start(name: string, env?: Record<string, string>, options?: ProgramOptions): Promise<Program>;
  /** Flags of Node.js with which a program writes its CPU profile when it ends; none without `--profile`. */
  profileFlags(name: string): string[];
}

export interface RigOptions extends ServerOptions {
  quick: boolean;
  /** Robots in the database, for the growth rows; smallest first. */
  growth: readonly number[];
  /** Directory for CPU profiles of the server, the agents and the other programs. */
  profile: string | undefined;
}

const LIMITS = [
  "token_requests_per_minute=100000000",
  "token_burst=100000000",
  "link_accepts_per_second=0",
  "unauthenticated_links_max=20000",
];
/** Long intervals, for rows that measure neither health nor heartbeats. Short ones would wake a server that should be idle. */
const RARE_INTERVALS = ["health_seconds=3600", "heartbeat_seconds=600"];

/** Starts the server in a temporary directory with an embedded database with fsync; everything is deleted afterwards. */
export async function withRig(options: RigOptions, work: (rig: Rig) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-bench-"));
  // The server refuses a data directory with files that it did not write, so the certificate is in the parent directory.
  const data = path.join(directory, "data");
  const programs = new Set<Program>();
  const begin = async (args: string[], url: string, env: Record<string, string>): Promise<Program> => {
    const program = await startProgram(args, url, env, certificate?.ca);
    const stop = (): Promise<void> => program.stop().finally(() => programs.delete(started));
    const started = { ...program, stop };
    programs.add(started);
    return started;
  };
  const certificate = options.tls === true ? await makeCertificate(directory) : undefined;
  const scheme = certificate === undefined ? "http" : "https";
  const leave = (): Promise<void> => clear(programs, directory);
  open_rigs.add(leave);
  for (const signal of SIGNALS) process.on(signal, breakOff);
  try {
    const listen = `127.0.0.1:${await freePort()}`;
    const serve = (): Promise<Program> => begin(serverArguments(options, data, listen, certificate), `${scheme}://${listen}`, {});
    let server = await serve();
    let database = await databaseOf(data);
    const { token, org_id } = await approveOrg(server.url, certificate?.ca);
    await work({
      get server() {
        return server;
      },
      get database() {
        return database;
      },
      quick: options.quick,
      growth: options.growth,
      certificate,
      api: createClient({ base_url: server.url, token, ca: certificate?.ca }),
      token,
      org_id,
      restart: async () => {
        await server.stop();
        server = await serve();
        database = await databaseOf(data);
      },
      profileFlags: (name) => profileFlags(options, name),
      start: async (name, env = {}, { collectable, node_flags = [] } = {}) => {
        const port = await freePort();
        const files = certificate === undefined ? {} : { TLS_CERT_FILE: certificate.cert_file, TLS_KEY_FILE: certificate.key_file };
        const flags = [...node_flags, ...profileFlags(options, name.replace("/", "-")), ...(collectable === true ? COLLECTABLE : [])];
        const args = [...flags, `bench/${name}.ts`];
        return begin(args, `${scheme}://127.0.0.1:${port}`, { ...files, ...env, PORT: String(port) });
      },
    });
  } finally {
    await leave();
    open_rigs.delete(leave);
    if (open_rigs.size === 0) for (const signal of SIGNALS) process.off(signal, breakOff);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** A row may use several rigs. */
const open_rigs = new Set<() => Promise<void>>();

/** Cleans up when the bench is interrupted, so that it leaves no processes or files. */
function breakOff(): void {
  const all = Array.from(open_rigs, (leave) => leave());
  open_rigs.clear();
  if (all.length > 0) void Promise.allSettled(all).then(() => process.exit(130));
}

async function clear(programs: ReadonlySet<Program>, directory: string): Promise<void> {
  for (const program of [...programs].toReversed()) await program.stop();
  await rm(directory, { recursive: true, force: true });
}

/** Sampling interval of the profiler, long enough that an idle process stays idle while it is profiled. */
const PROFILE_INTERVAL_US = 4_000;

const profileFlags = ({ profile }: RigOptions, name: string): string[] =>
  profile === undefined
    ? []
    : [
        "--cpu-prof",
        `--cpu-prof-interval=${PROFILE_INTERVAL_US}`,
        `--cpu-prof-dir=${profile}`,
        `--cpu-prof-name=${name}-\${pid}.cpuprofile`,
      ];

const COLLECTABLE = ["--expose-gc", "--import", "./bench/collect-garbage.ts"];

function serverArguments(options: RigOptions, data: string, listen: string, certificate: Certificate | undefined): string[] {
  return [
    ...SERVER_NODE_FLAGS,
    ...profileFlags(options, "server"),
    ...(options.collectable === true ? COLLECTABLE : []),
    "packages/server/src/main.ts",
    "serve",
    "--data",
    data,
    "--listen",
    listen,
    "--log-level",
    "error",
    ...(certificate === undefined ? [] : ["--tls-cert", certificate.cert_file, "--tls-key", certificate.key_file]),
    ...[...LIMITS, ...(options.default_intervals === true ? [] : RARE_INTERVALS)].flatMap((limit) => ["--limit", limit]),
  ];
}

async function makeCertificate(parent: string): Promise<Certificate> {
  const directory = path.join(parent, "certificate");
  await mkdir(directory);
  const now = new Date();
  const authority = await openAuthority(directory, now);
  const { cert, key } = await authority.issue(["127.0.0.1"], now);
  const [ca_file, cert_file, key_file] = [
    path.join(directory, "bench-ca.pem"),
    path.join(directory, "cert.pem"),
    path.join(directory, "key.pem"),
  ];
  await writeFile(ca_file, authority.pem);
  await writeFile(cert_file, cert);
  await writeFile(key_file, key);
  return { ca: authority.pem, ca_file, cert_file, key_file };
}

async function approveOrg(url: string, ca: string | undefined): Promise<{ token: string; org_id: string }> {
  const admin = createClient({ base_url: url, ca });
  const { data: org } = await admin.createOrg({ body: { name: "bench" } });
  const { data } = await admin.approveOrg({ params: { id: org.id } });
  return { token: data.token ?? "", org_id: org.id };
}

/** Address of the embedded PostgreSQL, from its pid file (lines 4 and 5). */
async function databaseOf(data: string): Promise<Rig["database"]> {
  const lines = (await readFile(path.join(data, "postgres", "postmaster.pid"), "utf8")).split("\n");
  return { host: lines[4]?.trim() ?? "", port: Number(lines[3]), user: "roamfleet", database: "roamfleet" };
}

async function startProgram(args: string[], url: string, env: Record<string, string>, ca: string | undefined): Promise<Program> {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, SERVICE_ADMIN_TOKEN: "", DATABASE_URL: "", ...env },
  });
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${args.join(" ")} ended with ${child.exitCode}`);
    if (await answers(`${url}/readyz`, ca)) break;
    if (performance.now() > deadline) {
      await endChild(child);
      throw new Error(`${args.join(" ")} was not ready in time`);
    }
    await sleep(50);
  }
  return { pid: child.pid ?? 0, url, stop: () => endChild(child) };
}

/** Ends a process by SIGTERM, or by SIGKILL if it does not end in time. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(late);
}

function answers(url: string, ca: string | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const request = url.startsWith("https:") ? https.get(url, { ca, agent: false }) : http.get(url, { agent: false });
    request
      .on("error", () => resolve(false))
      .on("response", (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      });
  });
}
