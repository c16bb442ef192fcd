import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { promisify } from "node:util";

const HERE = import.meta.dirname;
const BUILD_TIMEOUT_MS = 60_000;

/** Returns why the tests with a real DDS writer cannot run here, or undefined. */
export function whyNoDds(): string | undefined {
  if (process.getuid?.() !== 0) return "a network namespace needs root";
  for (const program of ["idlc", "gcc", "ip", "unshare", "nsenter"])
    if (spawnSync("sh", ["-c", `command -v ${program}`]).status !== 0) return `${program} is not installed`;
  const made = spawnSync("unshare", ["--net", "ip", "link", "set", "lo", "up"], { encoding: "utf8" });
  return made.status === 0 ? undefined : `no network namespace can be made here: ${made.stderr.trim()}`;
}

/** Creates a network namespace with multicast over the loopback only: isolated from other DDS participants. */
export async function startNamespace(t: TestContext): Promise<Namespace> {
  const script = "ip link set lo up && ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo && echo up && exec cat";
  const holder = spawn("unshare", ["--net", "sh", "-c", script], { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => holder.stdin.end());
  await once(holder.stdout, "data");
  return new Namespace(t, holder);
}

export class Namespace {
  readonly #t: TestContext;
  readonly #holder: ChildProcess;

  constructor(t: TestContext, holder: ChildProcess) {
    this.#t = t;
    this.#holder = holder;
  }

  /** Command prefix that runs a program in the namespace. */
  get within(): string[] {
    return ["nsenter", `--net=/proc/${this.#holder.pid}/ns/net`];
  }

  /** Starts a process that ends with the test. */
  spawn(
    program: string,
    args: readonly string[],
    environment: Record<string, string> = {},
  ): ChildProcess & { stdin: object; stdout: object } {
    const [enter = "", ...rest] = this.within;
    const child = spawn(enter, [...rest, program, ...args], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...environment },
    });
    this.#t.after(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    });
    return child;
  }
}

/** Builds the Cyclone DDS writer with Debian's idlc and gcc; returns its path. */
export async function buildWriter(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-dds-"));
  t.after(() => rm(directory, { recursive: true }));
  const run = promisify(execFile);
  const options = { cwd: directory, timeout: BUILD_TIMEOUT_MS };
  await run("idlc", ["-x", "final", join(HERE, "messages.idl")], options);
  await run("gcc", ["-O1", "-I", directory, "-o", "writer", join(HERE, "writer.c"), "messages.c", "-lddsc", "-lm"], options);
  return join(directory, "writer");
}

export interface HeardMessage {
  topic: string;
  type: string;
  at: string;
  message: unknown;
}

/** What the bridge in a separate process has found and received. */
export class Listener {
  found: { name: string; distro: string | null } | undefined;
  gone = 0;
  topics: { name: string; type: string }[] = [];
  nodes: string[] = [];
  readonly messages: HeardMessage[] = [];
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const said = JSON.parse(line) as Partial<Listener> & { message?: HeardMessage; lost?: true };
      if (said.found !== undefined) this.found = said.found;
      if (said.topics !== undefined) this.topics = said.topics;
      if (said.nodes !== undefined) this.nodes = said.nodes;
      if (said.message !== undefined) this.messages.push(said.message);
      if (said.lost === true) this.gone += 1;
    });
  }

  /** Messages received of a topic. */
  of(topic: string): HeardMessage[] {
    return this.messages.filter((message) => message.topic === topic);
  }

  say(order: string): void {
    this.#child.stdin!.write(`${order}\n`);
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }
}

/** Starts a process in the namespace that runs the bridge and prints what it receives. */
export function listen(namespace: Namespace, topics: readonly string[], environment: Record<string, string>): Listener {
  return new Listener(namespace.spawn(process.execPath, [join(HERE, "listener-process.ts"), JSON.stringify(topics)], environment));
}
