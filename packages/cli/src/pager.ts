import { spawn } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";
import { stripVTControlCharacters } from "node:util";

/** Exit code of a shell that cannot find the pager. */
const NOT_FOUND = 127;

/** Returns whether a text is longer than the terminal, counting wrapped lines. */
export function isLong(text: string, terminal: { rows: number; columns: number }): boolean {
  let rows = 0;
  for (const line of text.split("\n")) {
    // Colors take no space. Double-width characters are counted as one column, so a text slightly longer than the screen may be printed
    // without the pager.
    const width = stripVTControlCharacters(line).length;
    rows += Math.max(1, Math.ceil(width / terminal.columns));
    if (rows > terminal.rows) return true;
  }
  return false;
}

/**
 * Shows a text in the pager and resolves when the user exits it. Returns false if the pager is not installed: the caller then prints the
 * text.
 */
export async function page(text: string, pager: { command: string; env: NodeJS.ProcessEnv }): Promise<boolean> {
  const child = spawn(pager.command, { shell: true, env: pager.env, stdio: ["pipe", "inherit", "inherit"] });
  // While the pager runs, rf ignores Ctrl-C: the pager uses it, for example to stop a search.
  const ignore = (): void => {};
  const listeners = process.listeners("SIGINT");
  process.removeAllListeners("SIGINT").on("SIGINT", ignore);
  // Exiting the pager early closes the pipe, which is not an error.
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
