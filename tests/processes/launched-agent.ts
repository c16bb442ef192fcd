import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { buildAgent } from "../../packages/agent/build.ts";
import { until } from "@roamfleet/clock/testing";
import { processesNaming, ROOT } from "./process.ts";

export const ARCH = process.arch === "x64" ? "amd64" : process.arch;
export const VERSION: string = (JSON.parse(fs.readFileSync(path.join(ROOT, "packages/agent/package.json"), "utf8")) as { version: string })
  .version;

/** Changes of an agent version that make it unusable. */
export interface Fault {
  /** Program that replaces the agent. */
  program?: string;
  /** Shell commands that run before Node starts. */
  before?: string;
  arch?: string;
}
export const EXITS: Fault = { program: "process.exit(3);" };

/** Builds agent versions: the real bundle with another version number, and with faults. */
export class AgentVersions implements Disposable {
  readonly #scratch: string;
  readonly #bundle: string;

  private constructor(scratch: string, bundle: string) {
    this.#scratch = scratch;
    this.#bundle = bundle;
  }

  static async build(): Promise<AgentVersions> {
    const scratch = fs.mkdtempSync(path.join(tmpdir(), "roamfleet-versions-"));
    const built = process.env.ROAMFLEET_TEST_PROGRAMS;
    const bundle = built ? path.join(built, "agent") : path.dirname(await buildAgent(path.join(scratch, "bundle")));
    return new AgentVersions(scratch, bundle);
  }

  /** Writes the content of a version's directory. The file for Node is a script that starts the Node of this process. */
  write(directory: string, version: string, { program, before = "", arch = ARCH }: Fault = {}): void {
    fs.mkdirSync(path.join(directory, "bin"), { recursive: true });
    const node = `#!/bin/sh\n${before}\nexec ${process.execPath} "$@"\n`;
    fs.writeFileSync(path.join(directory, "bin/node"), node, { mode: 0o755 });
    fs.writeFileSync(path.join(directory, "agent.json"), JSON.stringify({ version, arch, commit: "test" }));
    for (const name of fs.readdirSync(this.#bundle)) {
      const text = fs.readFileSync(path.join(this.#bundle, name), "utf8");
      fs.writeFileSync(path.join(directory, name), text.replaceAll(`version:"${VERSION}",made_at`, `version:"${version}",made_at`));
    }
    if (program !== undefined) fs.writeFileSync(path.join(directory, "rf-agent.mjs"), program);
  }

  tarball(version: string, fault?: Fault): Buffer {
    const directory = fs.mkdtempSync(path.join(this.#scratch, "tree-"));
    this.write(directory, version, fault);
    return execFileSync("tar", ["--create", "--gzip", "--directory", directory, "."], { maxBuffer: 256 * 1024 * 1024, timeout: 60_000 });
  }

  [Symbol.dispose](): void {
    fs.rmSync(this.#scratch, { recursive: true, force: true });
  }
}

export interface LaunchedOptions {
  url: string;
  key: string;
  name: string;
  labels?: Record<string, string>;
  versions: AgentVersions;
  /** Parent of the directory that contains the versions, such as a small disk. */
  place?: string;
  env?: Record<string, string>;
}

/** The launcher's 60 s are 12 ticks. The agent's heartbeat has an interval of 5 s. */
const TICK_SECONDS = process.env.ROAMFLEET_PROMISES === "full" ? "5" : "1";

/** A robot: the real launcher and agent, with their own directories of versions and state. */
export class LaunchedAgent implements AsyncDisposable {
  readonly root: string;
  readonly state: string;
  readonly #options: LaunchedOptions;
  #launcher: ChildProcess | undefined;
  output = "";

  constructor(options: LaunchedOptions) {
    this.#options = options;
    this.root = fs.mkdtempSync(path.join(options.place ?? tmpdir(), "roamfleet-agents-"));
    this.state = fs.mkdtempSync(path.join(tmpdir(), "roamfleet-robot-"));
    options.versions.write(path.join(this.root, VERSION), VERSION);
    fs.symlinkSync(VERSION, path.join(this.root, "current"));
    this.start();
  }

  start(): void {
    const { url, key, name, labels = {}, env } = this.#options;
    const flags = ["--name", name, ...Object.entries(labels).flatMap(([label, value]) => ["--label", `${label}=${value}`])];
    const launcher = spawn(path.join(ROOT, "packages/agent/launch"), flags, {
      env: {
        PATH: process.env.PATH,
        ...(process.env.RF_TEST_RUN === undefined ? {} : { RF_TEST_RUN: process.env.RF_TEST_RUN }),
        ROAMFLEET_AGENT_ROOT: this.root,
        ROAMFLEET_AGENT_RUN: path.join(this.state, "run-files"),
        ROAMFLEET_AGENT_TICK_SECONDS: TICK_SECONDS,
        ROAMFLEET_SERVER: url,
        ROAMFLEET_STATE: this.state,
        ROAMFLEET_ENROLL_KEY: key,
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [launcher.stdout, launcher.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (this.output += text));
    this.#launcher = launcher;
  }

  /** Version that starts at the next boot. */
  get current(): string {
    return fs.readlinkSync(path.join(this.root, "current"));
  }

  get versions(): string[] {
    return fs.readdirSync(this.root).filter((name) => /^\d/.test(name));
  }

  /** Returns the pid and version of each running agent. */
  agents(): { pid: number; version: string }[] {
    return processesNaming(`${this.root}/`).flatMap(({ pid, command }) => {
      const version = /\/([^/ ]+)\/rf-agent\.mjs run/.exec(command)?.[1];
      return version !== undefined && command.includes(this.root) && !command.startsWith("/bin/sh") ? [{ pid, version }] : [];
    });
  }

  async runs(version: string): Promise<void> {
    await until(
      `agent ${version} to run alone`,
      () =>
        this.agents()
          .map((one) => one.version)
          .join() === version,
      {
        detail: () => this.output.slice(-4_000),
      },
    );
  }

  async kill(): Promise<void> {
    this.#launcher?.kill("SIGKILL");
    if (this.#launcher?.signalCode === null) await once(this.#launcher, "exit");
  }

  /** Kills the launcher and the agent, as a power cut does. `start` then boots the robot again. */
  async cutPower(): Promise<void> {
    await this.kill();
    for (const { pid } of processesNaming(`${this.root}/`)) endProcess(pid);
    await until("all processes to end", () => processesNaming(`${this.root}/`).length === 0);
  }

  async stop(): Promise<void> {
    const launcher = this.#launcher;
    if (launcher === undefined || launcher.exitCode !== null || launcher.signalCode !== null) return;
    launcher.kill("SIGTERM");
    const late = setTimeout(() => launcher.kill("SIGKILL"), 60_000);
    await once(launcher, "exit");
    clearTimeout(late);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    for (const directory of [`${this.root}/`, this.state]) for (const { pid } of processesNaming(directory)) endProcess(pid);
    for (const directory of [this.root, this.state]) fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
