import type { ShellParams } from "@roamfleet/protocol/link";

const SIZE_MAX = 1_000;
const WORDS_MAX = 1_000;
const COMMAND_BYTES_MAX = 64 * 1024;

export type CheckedParams = Required<Pick<ShellParams, "cols" | "rows" | "terminal" | "term">> & Pick<ShellParams, "app" | "command">;

/** Validates a request for a shell; returns a message if it is invalid. */
export function readShellParams(params: unknown): CheckedParams | string {
  if (typeof params !== "object" || params === null) return "the request for a shell is not an object";
  const { cols, rows, app, command, terminal = true, term = "xterm-256color" } = params as Record<string, unknown>;
  if (!isSize(cols) || !isSize(rows)) return `a terminal has 1 to ${SIZE_MAX} columns and rows`;
  if (app !== undefined && typeof app !== "string") return "app must be the name of an app";
  if (typeof terminal !== "boolean") return "terminal must be true or false";
  if (typeof term !== "string" || !/^[\w.+-]{1,64}$/.test(term)) return "term must be the name of a kind of terminal";
  if (command !== undefined && !isCommand(command)) return "command must be a list of words, and not too long";
  return { cols, rows, terminal, term, ...(app === undefined ? {} : { app }), ...(command === undefined ? {} : { command }) };
}

/** Whether a value is a valid number of columns or rows. */
export const isSize = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= SIZE_MAX;

function isCommand(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > WORDS_MAX || value[0] === "") return false;
  return value.every((word) => typeof word === "string" && !word.includes("\0")) && value.join(" ").length <= COMMAND_BYTES_MAX;
}
