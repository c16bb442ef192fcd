import type { Client } from "@roamfleet/sdk";
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
  /** Description in the command's help. Default: the summary. */
  description: string | undefined;
  /** Adds the command's arguments and options. */
  define: (command: Command) => unknown;
  /** Receives the arguments as commander passes them, then the options. */
  run: (context: Context, ...args: never[]) => Promise<void>;
  /** Examples of calls, for the command's help and the reference. */
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

/** Prints a response for people, or returns the lines to print. */
type Show<A extends unknown[]> = (...args: A) => string | readonly string[] | void | Promise<void>;

/** Defines a command that sends one request. `request` receives the client, the context, and then the command's arguments and options. */
export const requestCommand = <A extends unknown[], T>(
  description: string | undefined,
  define: CommandDefinition["define"],
  request: (client: Client, context: Context, ...args: A) => Promise<T>,
  show: Show<[answer: T, context: Context, ...args: A]>,
  examples?: readonly string[],
): CommandDefinition =>
  defineCommand<A>(
    description,
    define,
    async (context, ...args) => {
      const answer = await request(await context.client(), context, ...args);
      await printAnswer(context, answer, () => show(answer, context, ...args));
    },
    examples,
  );

/** Prints a response as a document (JSON or YAML) if requested; otherwise calls `show` and prints the lines that it returns. */
export const printAnswer = ({ out }: Context, answer: unknown, show: Show<[]>): Promise<void> =>
  out.result(answer, async () => {
    const lines = await show();
    for (const text of lines === undefined ? [] : [lines].flat()) out.line(text);
  });

/** Returns a parser for options that take a whole number of at least `minimum`. */
export const wholeNumber =
  (minimum: number) =>
  (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(value) || value < minimum) throw new InvalidArgumentError(`Expected a whole number of at least ${minimum}.`);
    return value;
  };

/** Returns a parser for arguments that take one of these words. */
export const oneOf =
  <const W extends string>(words: readonly W[]) =>
  (text: string): W => {
    const word = words.find((one) => one === text);
    if (word === undefined) throw new InvalidArgumentError(`Expected one of ${words.join(", ")}.`);
    return word;
  };

export const collect = (text: string, before: readonly string[] = []): string[] => [...before, text];
