import { isAbsolute } from "node:path";

/** Reads an address whose scheme is one of `protocols`, such as `http:`. */
export function readUrl(section: Section, name: string, protocols: readonly string[]): string | undefined {
  const text = section.text(name);
  if (text === undefined) return undefined;
  if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol))
    throw new ConfigFileError(
      `${section.at(name)} must be an address that begins with ${protocols.map((one) => `${one}//`).join(" or ")}, not ${JSON.stringify(text)}`,
    );
  return text;
}

/** An error in a config file; the message names the key. */
export class ConfigFileError extends Error {}

/**
 * Reads one mapping of a config file with `read`. Throws ConfigFileError if the mapping contains a key that `read` does not use: such a
 * key is unknown.
 */
export function readSection<T>(value: unknown, path: string, read: (section: Section) => T): T {
  const section = new Section(value, path);
  const result = read(section);
  section.end();
  return result;
}

/** One mapping of a config file. Its methods read one key each; `end` throws if the mapping has a key that was not read. */
export class Section {
  readonly #values: Map<string, unknown>;
  readonly #path: string;

  constructor(value: unknown, path: string) {
    // Refuse an empty section, for example one whose lines are all commented out: the defaults may allow more than its author wanted. An
    // empty file is valid.
    if (value === null && path !== "") throw new ConfigFileError(`${path} is empty: leave it out, or write {} for none`);
    if (value !== undefined && value !== null && !isMapping(value))
      throw new ConfigFileError(`${path || "the file"} must be a mapping of names to values`);
    this.#values = new Map(Object.entries(value ?? {}));
    this.#path = path;
  }

  /** Returns the full path of a key, for messages. */
  at(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }

  section<T>(name: string, read: (section: Section) => T): T {
    const value = this.#values.get(name);
    this.#values.delete(name);
    return readSection(value, this.at(name), read);
  }

  /** Like `section`, but returns undefined if the mapping is absent. */
  optional<T>(name: string, read: (section: Section) => T): T | undefined {
    return this.#values.has(name) ? this.section(name, read) : undefined;
  }

  sections<T>(name: string, read: (section: Section) => T): T[] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw this.#wrong(name, "must be a list");
    return value.map((one: unknown, i) => readSection(one, `${this.at(name)}[${i}]`, read));
  }

  text(name: string): string | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw this.#wrong(name, "must be a string", value);
    return value;
  }

  texts(name: string): string[] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string" && one !== ""))
      throw this.#wrong(name, "must be a list of strings");
    return value as string[];
  }

  /** Reads a list of paths. Throws ConfigFileError if one is not absolute. */
  paths(name: string): string[] | undefined {
    const paths = this.texts(name);
    const relative = paths?.find((one) => !isAbsolute(one));
    if (relative !== undefined) throw new ConfigFileError(`${this.at(name)}: ${JSON.stringify(relative)} is not absolute`);
    return paths;
  }

  /** Reads a list of strings. Throws ConfigFileError if one is not in `known`. */
  choices<T extends string>(name: string, known: readonly T[]): T[] | undefined {
    return this.texts(name)?.map((text) => this.#known(name, text, known));
  }

  /** Reads a string. Throws ConfigFileError if it is not in `known`. */
  choice<T extends string>(name: string, known: readonly T[]): T | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : this.#known(name, text, known);
  }

  #known<T extends string>(name: string, text: string, known: readonly T[]): T {
    const found = known.find((one) => one === text);
    if (found === undefined) throw new ConfigFileError(`${this.at(name)}: ${text} is not one of ${known.join(", ")}`);
    return found;
  }

  /** Reads a boolean, written as `on`, `off`, true or false. */
  onOff(name: string): boolean | undefined {
    const value = this.#take(name);
    if (value === undefined || typeof value === "boolean") return value;
    if (value === "on" || value === "off") return value === "on";
    throw this.#wrong(name, "must be on or off", value);
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Number.isInteger(value) || Number(value) < min || Number(value) > max)
      throw this.#wrong(name, `must be a whole number from ${min} to ${max}`, value);
    return Number(value);
  }

  /** Returns a value that the caller validates. */
  value(name: string): unknown {
    return this.#take(name);
  }

  /** Throws ConfigFileError if the section has a key that was not read. */
  end(): void {
    const [name] = this.#values.keys();
    if (name !== undefined) throw new ConfigFileError(`${this.at(name)} is not a known setting`);
  }

  #take(name: string): unknown {
    const value = this.#values.get(name);
    // Refuse a key without a value, for example a list whose entries are all commented out: the default may be the opposite of what the
    // author wanted.
    if (value === null) throw new ConfigFileError(`${this.at(name)} is empty: write [] for none`);
    this.#values.delete(name);
    return value;
  }

  #wrong(name: string, rule: string, value?: unknown): ConfigFileError {
    return new ConfigFileError(`${this.at(name)} ${rule}${value === undefined ? "" : `, not ${JSON.stringify(value)}`}`);
  }
}

const isMapping = (value: unknown): boolean => typeof value === "object" && !Array.isArray(value);
