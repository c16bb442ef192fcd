/** An error in a config file; the message names the key. */
export class ConfigFileError extends Error {}

/** One mapping of a config file, read key by key; `end` reports keys that were not read. */
export class Section {
  readonly #values: Map<string, unknown>;
  readonly #path: string;

  constructor(value: unknown, path = "") {
    // Only the whole file may be empty. In a section whose lines are all commented out, the defaults may allow more than its author wanted.
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

  section(name: string): Section {
    const value = this.#values.get(name);
    this.#values.delete(name);
    return new Section(value, this.at(name));
  }

  sections(name: string): Section[] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw this.#wrong(name, "must be a list");
    return value.map((one: unknown, i) => new Section(one, `${this.at(name)}[${i}]`));
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw this.#wrong(name, "must be a text", value);
    return value;
  }

  texts(name: string): string[] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string" && one !== ""))
      throw this.#wrong(name, "must be a list of texts");
    return value as string[];
  }

  /** `on`, `off`, true or false. */
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

  /** Throws if a key was not read. */
  end(): void {
    const [name] = this.#values.keys();
    if (name !== undefined) throw new ConfigFileError(`${this.at(name)} is not known`);
  }

  #take(name: string): unknown {
    const value = this.#values.get(name);
    // All entries are commented out: the default may be the opposite of what the author wanted.
    if (value === null) throw new ConfigFileError(`${this.at(name)} is empty: write [] for none`);
    this.#values.delete(name);
    return value;
  }

  #wrong(name: string, rule: string, value?: unknown): ConfigFileError {
    return new ConfigFileError(`${this.at(name)} ${rule}${value === undefined ? "" : `, not ${JSON.stringify(value)}`}`);
  }
}

const isMapping = (value: unknown): boolean => typeof value === "object" && !Array.isArray(value);
