import type { Argument, Command, Option } from "commander";
import { buildProgram } from "../program.ts";
import { plain } from "../text.ts";
import { topics } from "../topics.ts";
import type { Candidate, Source } from "./sources.ts";

/** If the response ends with this line, the shell's script completes file names. */
const FILES = ":files";

/**
 * Prints the completions of the last word, one per line: value, tab, description. `words` are the shell and the words typed after `rf`.
 * Prints nothing on any error, because output would appear in the middle of the user's command line.
 */
export async function answerCompletion(words: readonly string[]): Promise<void> {
  try {
    const [shell = "", ...typed] = words;
    const lines = await complete(shell === "bash" ? joinEqualSigns(typed) : { typed, split: false });
    process.stdout.write(lines.map((text) => `${text}\n`).join(""));
  } catch {
    // Print no error message, because it would appear in the user's command line.
  }
}

/** Joins `--robot=rob_1`, which bash splits into three words. */
function joinEqualSigns(words: readonly string[]): { typed: string[]; split: boolean } {
  const typed: string[] = [];
  let split = false;
  for (const [at, word] of words.entries()) {
    const before = words[at - 1];
    const joins = typed.length > 0 && (word === "=" || (before === "=" && word !== ""));
    if (joins) typed.push(`${typed.pop()}${word}`);
    else if (before !== "=") typed.push(word);
    split = joins || before === "=";
  }
  return { typed, split };
}

/** The position of the last word in the command line. */
interface Place {
  command: Command;
  /** Commands that are allowed at this position. */
  children: readonly Command[];
  /** Options that are allowed at the position of the last word. */
  options: readonly Option[];
  /** The argument or option whose value is completed; undefined if there is none. */
  slot: Argument | Option | undefined;
  /** Global flags that were typed before the last word, with their values. */
  flags: Map<string, string>;
  /** Arguments that were typed before the last word. */
  words: string[];
  /** Whether the command line starts with `rf help`. */
  for_help: boolean;
}

async function complete({ typed, split }: { typed: readonly string[]; split: boolean }): Promise<string[]> {
  const current = typed.at(-1) ?? "";
  const place = await findPlace(typed.slice(0, -1));
  const inline = /^(--[\w-]+=)(.*)$/s.exec(current);
  if (inline === null) return found(await candidatesAt(place, current), current, "");
  const [, flag = "", value = ""] = inline;
  const slot = place.options.find(({ long }) => `${long}=` === flag);
  return slot === undefined ? [] : found(await valuesOf(slot, place), value, split ? "" : flag);
}

async function findPlace(words: readonly string[]): Promise<Place> {
  const { program, complete: load, defaultVerb } = buildProgram();
  const flags = new Map<string, string>();
  let command = program;
  let slot: Option | undefined;
  const seen: string[] = [];
  let for_help = false;
  let only_arguments = false;
  for (const word of words) {
    if (slot !== undefined) {
      flags.set(slot.attributeName(), word);
      slot = undefined;
    } else if (word === "--") only_arguments = true;
    else if (word.startsWith("-") && !only_arguments) {
      const [name, value] = word.split(/=(.*)/s);
      const option = optionsOf(command).find(({ long, short }) => long === name || short === name);
      if (value !== undefined && option !== undefined) flags.set(option.attributeName(), value);
      else if (option?.required || option?.optional) slot = option;
    } else if (word === "help" && seen.length === 0) for_help = true;
    else {
      const child = command.commands.find((one) => one.name() === word);
      if (child === undefined) seen.push(word);
      const next = child ?? defaultVerb(command);
      if (next !== undefined) {
        await load(next);
        command = next;
      }
    }
  }
  const children = command.commands;
  const verb = defaultVerb(command);
  if (verb !== undefined) {
    await load(verb);
    command = verb;
  }
  return {
    command,
    children,
    options: only_arguments ? [] : optionsOf(command),
    slot: slot ?? command.registeredArguments[seen.length],
    flags,
    words: seen,
    for_help,
  };
}

/** Returns the options of a command and its parents, except --version, which only the root command accepts. */
const optionsOf = (command: Command): Option[] => [
  ...command.options,
  ...(command.parent === null ? [] : optionsOf(command.parent).filter(({ long }) => long !== "--version")),
];

async function candidatesAt(place: Place, current: string): Promise<Candidate[] | typeof FILES> {
  const { command, slot, options } = place;
  const is_option_value = slot !== undefined && "long" in slot;
  if (is_option_value) return valuesOf(slot, place);
  const children = place.children.filter((child) => topics.every(({ name }) => name !== child.name()));
  if (children.length > 0 && !current.startsWith("-")) {
    const extra = place.for_help ? topics.map(({ name, summary }) => ({ value: name, about: summary })) : [];
    const values = slot === undefined ? [] : await valuesOf(slot, place);
    return [
      ...children.map((child) => ({ value: child.name(), about: child.summary() })),
      ...(command.parent === null ? extra : []),
      ...(values === FILES ? [] : values),
    ];
  }
  if (slot !== undefined && !current.startsWith("-")) return valuesOf(slot, place);
  return [
    ...options.flatMap(({ long, description, hidden }) => (long && !hidden ? [{ value: long, about: description }] : [])),
    { value: "--help", about: "Show help" },
  ];
}

async function valuesOf(slot: Argument | Option, place: Place): Promise<Candidate[] | typeof FILES> {
  if (slot.argChoices !== undefined) return slot.argChoices.map((value) => ({ value }));
  const { sourceOf, readSource } = await import("./sources.ts");
  const source: Source | undefined = sourceOf(place.command, slot);
  if (source === "files") return FILES;
  return source === undefined ? [] : readSource(source, place.flags, place.words);
}

/**
 * Returns the lines to print for the typed word: the candidates whose values start with the word. If there are none, compares the
 * candidates' names, ignoring case. If one name matches, or equals the word, returns the value with this name, otherwise the names of all
 * matches.
 */
function found(candidates: Candidate[] | typeof FILES, typed: string, prefix: string): string[] {
  if (candidates === FILES) return [FILES];
  const lines = (some: readonly Candidate[]): string[] =>
    some.map(({ value, about, name }) => {
      const words = [name, about].filter((text) => text !== undefined && text !== "").join(", ");
      return `${prefix}${plain(value)}${words === "" ? "" : `\t${plain(words)}`}`;
    });
  const begun = candidates.filter(({ value }) => value.startsWith(typed));
  if (begun.length > 0) return lines(begun);
  const named = candidates.filter(({ name }) => name?.toLowerCase().startsWith(typed.toLowerCase()));
  const exact = named.filter(({ name }) => name === typed);
  if (exact.length === 1 || named.length === 1) return lines(exact.length === 1 ? exact : named);
  return named.map(({ value, name }) => `${prefix}${plain(name)}\t${plain(value)}`);
}
