import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SERVER_NODE_FLAGS } from "../../bin/launch.mjs";

/** Startup timeout of the server. The first start of a new clone creates its database and builds its dashboard. */
const READY_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 20_000;
const LOG_LINES_SHOWN = 15;

interface Running {
  name: string;
  /** Optional: the demo continues without it. */
  extra: boolean;
  child: ChildProcess;
  log_file: string;
  ended: Promise<void>;
}

/** The demo's server and robots: real processes, each with a log file. */
export class Processes {
  readonly #logs: string;
  readonly #running: Running[] = [];
  #stopping = false;

  constructor(logs: string) {
    this.#logs = logs;
  }

  /** Starts the server. Resolves with its address once it is ready. */
  async startServer(options: { root: string; data: string; listen: string }): Promise<string> {
    const url = `http://${options.listen}`;
    if (await answers(`${url}/healthz`))
      throw new Error(
        `another program already responds at ${url}. Is another demo running? Choose another port: npm start -- --listen 127.0.0.1:7601`,
      );
    const server = this.#start(
      "server",
      options.root,
      "packages/server/src/main.ts",
      ["serve", "--data", options.data, "--listen", options.listen],
      SERVER_NODE_FLAGS,
    );
    const deadline = performance.now() + READY_TIMEOUT_MS;
    while (!(await answers(`${url}/readyz`))) {
      if (server.child.exitCode !== null) throw new Error(`the server ended:\n${lastLines(server.log_file)}`);
      if (performance.now() > deadline)
        throw new Error(`the server was not ready within ${READY_TIMEOUT_MS / 1_000} s; its log: ${server.log_file}`);
      await sleep(100);
    }
    return url;
  }

  startRobot(options: { root: string; url: string; key: string; state: string; name: string; config: string }): void {
    this.#start(options.name, options.root, "packages/agent/src/main.ts", [
      "run",
      "--server",
      options.url,
      "--enroll-key",
      options.key,
      "--state",
      options.state,
      "--name",
      options.name,
      "--config",
      options.config,
      "--label",
      "demo=true",
      "--stop-workloads",
    ]);
  }

  /** Starts an optional program: the demo continues if it fails. */
  startExtra({ name, program, args, env }: { name: string; program: string; args: string[]; env: Record<string, string> }): void {
    this.#spawn(name, program, args, { extra: true, env });
  }

  /** Returns why the demo cannot continue after a process exited. */
  failure(): string | undefined {
    const dead = this.#needed().find(({ child }) => child.exitCode !== null || child.signalCode !== null);
    return dead === undefined
      ? undefined
      : `${dead.name} exited unexpectedly; the last lines of ${dead.log_file}:\n${lastLines(dead.log_file)}`;
  }

  async untilOneEnds(): Promise<void> {
    await Promise.race(this.#needed().map(({ ended }) => ended));
  }

  /** Stops robots first, so that the server notices their disconnects. Processes that do not exit in time are killed. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    const [servers, robots] = [
      this.#running.filter(({ name }) => name === "server"),
      this.#running.filter(({ name }) => name !== "server"),
    ];
    for (const group of [robots, servers]) {
      for (const { child } of group) child.kill("SIGTERM");
      const late = setTimeout(() => group.forEach(({ child }) => child.kill("SIGKILL")), STOP_TIMEOUT_MS);
      await Promise.all(group.map(({ ended }) => ended));
      clearTimeout(late);
    }
  }

  #needed(): Running[] {
    return this.#running.filter(({ extra }) => !extra);
  }

  #start(name: string, root: string, entry: string, args: string[], node_flags: readonly string[] = []): Running {
    const program = ["bin/under-launcher.mjs", entry].map((file) => path.join(root, file));
    return this.#spawn(name, process.execPath, [...node_flags, ...program, ...args], { extra: false, env: {} });
  }

  /**
   * Starts a program in a separate process group, so that Ctrl-C reaches only the demo, which then stops everything in order. If the demo
   * is killed, the pipe to its Node programs closes, and these programs end.
   */
  #spawn(name: string, program: string, args: string[], { extra, env }: { extra: boolean; env: Record<string, string> }): Running {
    mkdirSync(this.#logs, { recursive: true });
    const log_file = path.join(this.#logs, `${name}.log`);
    const log = openSync(log_file, "a");
    const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["ignore", log, log, "pipe"], detached: true });
    const ended = new Promise<void>((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    const running = { name, extra, child, log_file, ended };
    this.#running.push(running);
    return running;
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false;
  }
}

const lastLines = (file: string): string => readFileSync(file, "utf8").trimEnd().split("\n").slice(-LOG_LINES_SHOWN).join("\n");
