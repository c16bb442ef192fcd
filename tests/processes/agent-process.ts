import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Found, processesNaming, Program } from "./process.ts";

export interface AgentOptions {
  url: string;
  key: string;
  name: string;
  labels?: Record<string, string>;
}

/** A robot: the real agent, as a process of its own with a state directory that outlives a kill. */
export class AgentProcess implements AsyncDisposable {
  readonly state: string;
  readonly options: AgentOptions;
  program: Program;

  constructor(options: AgentOptions) {
    this.options = options;
    this.state = mkdtempSync(path.join(tmpdir(), "robofleet-robot-"));
    this.program = this.#start();
  }

  /** Starts the agent again, after a kill or a stop, on the state that it left. */
  restart(): void {
    this.program = this.#start();
  }

  /** The programs that this robot runs for its releases, with the environment that the agent gave them. */
  workloads(): Found[] {
    return processesNaming(this.state).filter(({ env }) => env.ROBOFLEET_RELEASE !== undefined);
  }

  #start(): Program {
    const { url, key, name, labels = {} } = this.options;
    const flags = Object.entries(labels).flatMap(([label, value]) => ["--label", `${label}=${value}`]);
    return new Program("packages/agent/src/main.ts", ["run", "--server", url, "--state", this.state, "--name", name, ...flags], {
      ROBOFLEET_ENROLL_KEY: key,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // One that was killed left its workloads behind; the next run of the agent finds and stops them.
    if (!this.program.running && this.workloads().length > 0) this.restart();
    if (this.program.running) await this.program.stop();
    for (const { pid } of this.workloads()) process.kill(pid, "SIGKILL");
    rmSync(this.state, { recursive: true, force: true });
  }
}
