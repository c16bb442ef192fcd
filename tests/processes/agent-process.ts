import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { WRAPPER_VARIABLE } from "../../packages/agent/src/runtime/processes.ts";
import { refuseSecrets } from "../harness/secrets.ts";
import { failpointFlags, type Found, processesNaming, Program } from "./process.ts";

export interface AgentOptions {
  url: string;
  key: string;
  name: string;
  labels?: Record<string, string>;
  args?: readonly string[];
  /** Parent of the agent's state directory, such as a small disk. Default: the system's temporary directory. */
  place?: string;
  /** Command prefix, such as one that enters another network namespace. */
  within?: readonly string[];
  /** Environment of this start and later ones. */
  env?: Record<string, string>;
}

/** A robot: the real agent in a separate process, with a state directory that is kept across kills. */
export class AgentProcess implements AsyncDisposable {
  readonly state: string;
  readonly options: AgentOptions;
  readonly #programs: Program[] = [];
  #program: Program | undefined;

  /** With `start: false`, the first call of `restart` starts the agent. */
  constructor(options: AgentOptions, { start = true }: { start?: boolean } = {}) {
    this.options = options;
    this.state = mkdtempSync(path.join(options.place ?? tmpdir(), "roamfleet-robot-"));
    if (start) this.restart();
  }

  /** The newest process. */
  get program(): Program {
    if (this.#program === undefined) throw new Error("the agent was never started");
    return this.#program;
  }

  /** Starts the agent again on the same state, after a kill or stop. */
  restart(): void {
    this.#program = this.#start();
    this.#programs.push(this.#program);
  }

  /** Returns the programs of this robot's releases, with their environment. */
  workloads(): Found[] {
    return processesNaming(this.state).filter(({ env }) => env.ROAMFLEET_RELEASE !== undefined && env[WRAPPER_VARIABLE] === undefined);
  }

  /** Stops the workloads with the agent's own command. Returns its exit code: 6 while an agent runs. */
  async stopWorkloads(): Promise<number | null> {
    const socket = this.options.args?.indexOf("--container-socket") ?? -1;
    const engine = socket < 0 ? "none" : this.options.args![socket + 1]!;
    const words = ["stop-workloads", "--state", this.state, "--container-socket", engine];
    return (await new Program("packages/agent/src/main.ts", words).ended).code;
  }

  #start(): Program {
    const { url, key, name, labels = {}, env, args = [], within } = this.options;
    const flags = Object.entries(labels).flatMap(([label, value]) => ["--label", `${label}=${value}`]);
    const words = ["run", "--server", url, "--state", this.state, "--name", name, ...failpointFlags(env), ...flags, ...args];
    return new Program("packages/agent/src/main.ts", words, { ROAMFLEET_ENROLL_KEY: key, ROAMFLEET_TPM: "off", ...env }, within);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    delete this.options.env;
    if (this.#program?.running === true) await this.#program.stop();
    // Workloads outlive the agent. Containers are not processes of this machine's agent, so they are always stopped.
    if (this.workloads().length > 0 || this.options.args?.includes("--container-socket") === true) await this.stopWorkloads();
    for (const { pid } of processesNaming(this.state)) endProcess(pid);
    try {
      refuseSecrets("the agent", { directory: this.state, outputs: this.#programs.map(({ output }) => output) });
    } finally {
      rmSync(this.state, { recursive: true, force: true });
    }
  }
}

/** Kills a process, which may have ended already. */
function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
