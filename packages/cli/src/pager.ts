import { spawn } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";
import { stripVTControlCharacters } from "node:util";

/** What a shell answers when the command of the pager is not there. */
const NOT_FOUND = 127;

/** Whether a text is longer than the terminal is high, lines that wrap counted as what they take. */
export function isLong(text: string, terminal: { rows: number; columns: number }): boolean {
  let rows = 0;
  for (const line of text.split("\n")) {
    // Colours take no room; that wide characters take two only brings the pager a little late.
    const width = stripVTControlCharacters(line).length;
    rows += Math.max(1, Math.ceil(width / terminal.columns));
    if (rows > terminal.rows) return true;
  }
  return false;
}

/**
 * Shows a text in the pager, and resolves when the person leaves it. False when there is no such program: the text is
 * then still to be shown.
 */
export async function page(text: string, pager: { command: string; env: NodeJS.ProcessEnv }): Promise<boolean> {
  const child = spawn(pager.command, { shell: true, env: pager.env, stdio: ["pipe", "inherit", "inherit"] });
  // Ctrl-C is the pager's own: it stops a search there, say.
  const ignore = (): void => {};
  const listeners = process.listeners("SIGINT");
  process.removeAllListeners("SIGINT").on("SIGINT", ignore);
  // Leaving it early closes the pipe.
  child.stdin.on("error", ignore);
  child.stdin.end(text);
  const code = await new Promise<number | null>((resolve) => {
    child.once("error", () => resolve(NOT_FOUND));
    child.once("close", (status, signal) => resolve(signal === null ? status : 128 + constants.signals[signal]));
  });
  process.off("SIGINT", ignore);
  for (const listener of listeners) process.on("SIGINT", listener);
  return code !== NOT_FOUND;
}
