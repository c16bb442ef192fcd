import { Program } from "./process.ts";

export interface CommandResult {
  code: number | null;
  output: string;
}

/** A command of `robofleet` beside `serve`, as a process of its own; not waited for. */
export const startCommand = (args: readonly string[], env: Record<string, string> = {}): Program =>
  new Program("packages/server/src/main.ts", args, env);

/** Runs `robofleet …` to its end. */
export async function runCommand(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  const program = startCommand(args, env);
  const { code } = await program.ended;
  return { code, output: program.output };
}
