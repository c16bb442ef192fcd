import { type Command, InvalidArgumentError } from "commander";
import type { Context } from "./context.ts";

/** Gives a command its arguments and options; `act` makes the action out of what the command does. */
export type Define = (command: Command, act: Act) => void;

/** Wraps `run(context, …arguments, options)` as an action of commander. */
export type Act = <A extends unknown[]>(run: (context: Context, ...args: A) => Promise<void>) => (...args: A) => Promise<void>;

/** Examples under a command's help, and in the reference. */
export const examples = new WeakMap<Command, readonly string[]>();

export function addExamples(command: Command, lines: readonly string[]): void {
  examples.set(command, lines);
  command.addHelpText("after", `\nExamples:\n${lines.map((text) => `  $ ${text}`).join("\n")}`);
}

/** Parses the value of an option that is a whole number from `minimum` on. */
export const wholeNumber =
  (minimum: number) =>
  (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(value) || value < minimum) throw new InvalidArgumentError(`It takes a whole number from ${minimum} on.`);
    return value;
  };

export const collect = (text: string, before: readonly string[] = []): string[] => [...before, text];
