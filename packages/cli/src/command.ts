import { type Command, InvalidArgumentError } from "commander";
import type { Context } from "./context.ts";
import type { OutputFormat } from "./output.ts";

/** Flags of every command, accepted before or after it. */
export interface GlobalOptions {
  json?: boolean;
  output?: OutputFormat;
  columns?: string[];
  headers: boolean;
  pager: boolean;
  baseUrl?: string;
  profile?: string;
  org?: string;
}

export interface CommandDefinition {
  /** Default: the summary. */
  description: string | undefined;
  /** Adds the arguments and options. */
  define: (command: Command) => unknown;
  /** Receives the arguments as commander passes them, then the options. */
  run: (context: Context, ...args: never[]) => Promise<void>;
  /** Shown in the command's help and in the reference. */
  examples: readonly string[];
}

/** `A`: types of the arguments and options that `run` receives. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names them, because commander does not
export const defineCommand = <A extends unknown[]>(
  description: string | undefined,
  define: CommandDefinition["define"],
  run: (context: Context, ...args: A) => Promise<void>,
  examples: readonly string[] = [],
): CommandDefinition => ({ description, define, run: run as unknown as CommandDefinition["run"], examples });

/** Returns a parser for options that take a whole number of at least `minimum`. */
export const wholeNumber =
  (minimum: number) =>
  (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(value) || value < minimum) throw new InvalidArgumentError(`Expected a whole number of at least ${minimum}.`);
    return value;
  };

export const collect = (text: string, before: readonly string[] = []): string[] => [...before, text];
