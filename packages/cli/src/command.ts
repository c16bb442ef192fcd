import { type Command, InvalidArgumentError } from "commander";
import type { Context } from "./context.ts";

/** Defines a command's arguments and options; `act` wraps the command's function as an action. */
export type Define = (command: Command, act: Act) => void;

/** Wraps `run(context, …arguments, options)` as a commander action. */
export type Act = <A extends unknown[]>(run: (context: Context, ...args: A) => Promise<void>) => (...args: A) => Promise<void>;

/** Adds examples to a command's help and to the reference. */
export const examples = new WeakMap<Command, readonly string[]>();

export function addExamples(command: Command, lines: readonly string[]): void {
  examples.set(command, lines);
  command.addHelpText("after", `\nExamples:\n${lines.map((text) => `  $ ${text}`).join("\n")}`);
}

/** Returns a parser for options that take a whole number of at least `minimum`. */
export const wholeNumber =
  (minimum: number) =>
  (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(value) || value < minimum) throw new InvalidArgumentError(`Expected a whole number of at least ${minimum}.`);
    return value;
  };

export const collect = (text: string, before: readonly string[] = []): string[] => [...before, text];
