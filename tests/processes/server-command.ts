import { Program } from "./process.ts";

export interface CommandResult {
  code: number | null;
  output: string;
}

/** Starts a command of `roamfleet` other than `serve` in a separate process, without waiting for its end. */
export const startCommand = (args: readonly string[], env: Record<string, string> = {}): Program =>
  new Program("packages/server/src/main.ts", args, env);

/** Runs `roamfleet …` to its end. */
export async function runCommand(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  const program = startCommand(args, env);
  const { code } = await program.ended;
  return { code, output: program.output };
}

/** `roamfleet serve` on a data directory that the caller creates and removes. */
export class ServingData implements AsyncDisposable {
  readonly program: Program;

  constructor(data: string, env: Record<string, string> = {}, args: readonly string[] = []) {
    this.program = startCommand(["serve", "--data", data, "--listen", "127.0.0.1:0", ...args], env);
  }

  url(): Promise<string> {
    return this.program.until("the server to listen", () => /"url":"([^"]+)","data"/.exec(this.program.output)?.[1]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.program.running) await this.program.stop();
  }
}
