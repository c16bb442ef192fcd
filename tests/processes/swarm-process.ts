import { refuseSecrets } from "../harness/secrets.ts";
import { Program } from "./process.ts";

export interface SwarmOptions {
  url: string;
  /** Not needed if all robots are in `--state`. */
  key?: string;
  robots: number;
  args?: readonly string[];
}

/** `roamfleet swarm` in a separate process. */
export class SwarmProcess implements AsyncDisposable {
  readonly program: Program;

  constructor({ url, key, robots, args = [] }: SwarmOptions) {
    this.program = new Program(
      "packages/swarm/src/main.ts",
      ["--server", url, "--robots", String(robots), ...args],
      key === undefined ? {} : { ROAMFLEET_ENROLL_KEY: key },
    );
  }

  /** Sends SIGINT, like Ctrl-C. Returns the exit code. */
  async interrupt(): Promise<number | null> {
    this.program.child.kill("SIGINT");
    return (await this.program.ended).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.program.running) await this.program.stop();
    refuseSecrets("the swarm", { outputs: [this.program.output] });
  }
}
