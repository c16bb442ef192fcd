import { hash } from "node:crypto";
import type { JsonValue } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { type ConfigFile, entryBound, fileBound, openOrgSecrets, type OrgSecrets, type Sealing } from "./data-keys.ts";
import { readEntries, REGISTRIES_NAMESPACE, resolve, scopesOf } from "./effective.ts";
import { type CompiledSchema, compileSchema, sentenceOf } from "./schema.ts";
import { awaitChanges, type EntryRow, listPlaces, listSchemasOf, listSizesFor, type RobotPlace } from "./store.ts";

const SALT_BYTES = 16;

/** Builds a config file. Equal values give equal bytes, whatever the order of the keys, so unchanged values need no deployment. */
export function configFile(values: ReadonlyMap<string, JsonValue>): ConfigFile {
  const content = `${writeObject([...values], "")}\n`;
  return { content, sha256: hash("sha256", content) };
}

/**
 * Builds a config file from values that include secrets. Appends a salt, encoded as spaces and tabs. Without the salt, users who see only
 * the digest could guess a short secret from it.
 */
function saltedFile(values: ReadonlyMap<string, JsonValue>, saltOf: (text: string) => Uint8Array): ConfigFile {
  const { content } = configFile(values);
  const bits = Array.from(saltOf(content).subarray(0, SALT_BYTES), (byte) => byte.toString(2).padStart(8, "0")).join("");
  const salted = `${content}${bits.replaceAll("0", " ").replaceAll("1", "\t")}\n`;
  return { content: salted, sha256: hash("sha256", salted) };
}

function write(value: JsonValue, indent: string): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    const inner = `${indent}  `;
    return `[\n${value.map((item) => `${inner}${write(item, inner)}`).join(",\n")}\n${indent}]`;
  }
  if (typeof value === "object" && value !== null) return writeObject(Object.entries(value), indent);
  return JSON.stringify(value);
}

/**
 * Formats a JSON object from its entries. A JavaScript object would not work: a key may be `__proto__`, and keys that look like numbers
 * would be reordered.
 */
function writeObject(entries: readonly (readonly [string, JsonValue])[], indent: string): string {
  if (entries.length === 0) return "{}";
  const inner = `${indent}  `;
  const lines = entries
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${inner}${JSON.stringify(key)}: ${write(value, inner)}`);
  return `{\n${lines.join(",\n")}\n${indent}}`;
}

/** Maximum size of the values in one batch of robots, measured as text in the database. */
const FILES_BYTES_MAX = 16 * 1024 * 1024;

/** The config files for a robot. */
export interface RobotFiles {
  /** The files by namespace. A file with a secret has encrypted content, which `openFile` decrypts. */
  files: ReadonlyMap<string, ConfigFile>;
  /** Why the robot must not get the files: the text of the first schema violation. Null if all namespaces are valid. */
  refusal: string | null;
}

interface FilesWanted {
  robot_ids: readonly string[];
  /** The only namespace to build files for. Null means all namespaces in which at least one value is set. */
  namespace: string | null;
  /** Namespaces, by robot id, for which the robot gets a file even if no value is set. */
  always?: ReadonlyMap<string, readonly string[]>;
  /** The order number of a deployment: the files have the values of the time when it was drawn. Null: the current values. */
  as_of?: number | null;
  bytes_max?: number;
}

/**
 * Builds the config files of many robots, in batches of bounded size. Robots of one fleet share the same file objects, except robots for
 * which a value is set individually. Omits robots that do not exist.
 */
export async function* effectiveFiles(
  db: Db,
  plane: Pick<Sealing, "secrets">,
  org_id: string,
  { robot_ids, namespace, always = new Map(), as_of = null, bytes_max = FILES_BYTES_MAX }: FilesWanted,
): AsyncGenerator<Map<string, RobotFiles>> {
  if (as_of !== null) await awaitChanges(db, org_id, namespace);
  const places = await listPlaces(db, org_id, robot_ids);
  const sizes = new Map(
    (await listSizesFor(db, org_id, scopesOf(places), namespace, as_of)).map(({ scope_id, bytes }) => [scope_id, bytes]),
  );
  const maker = new FileMaker(db, plane, org_id);
  for (const part of partsOf(places, sizes, bytes_max)) {
    const by_scope = await readEntries(db, org_id, part, namespace, as_of);
    const made = new Map<string, RobotFiles>();
    const shared = new Map<string, RobotFiles>();
    for (const place of part) {
      const empty = always.get(place.id) ?? [];
      const alike = by_scope.has(place.id) ? undefined : JSON.stringify([place.fleet_id, empty.toSorted()]);
      const known = alike === undefined ? undefined : shared.get(alike);
      const own = known ?? (await maker.filesOf(resolve(by_scope, place), empty));
      if (alike !== undefined) shared.set(alike, own);
      made.set(place.id, own);
    }
    yield made;
  }
}

/**
 * Splits robots into batches whose values have at most `bytes_max` bytes. A robot with more bytes gets a separate batch. Values that
 * robots of a fleet share are counted once per batch.
 */
function* partsOf(places: readonly RobotPlace[], sizes: ReadonlyMap<string, number>, bytes_max: number): Generator<RobotPlace[]> {
  const size = (scope_id: string): number => sizes.get(scope_id) ?? 0;
  let part: RobotPlace[] = [];
  let bytes = 0;
  let fleets = new Set<string>();
  for (const place of places.toSorted((a, b) => (a.fleet_id < b.fleet_id ? -1 : a.fleet_id > b.fleet_id ? 1 : 0))) {
    const has_own = sizes.has(place.id);
    const whole = size("") + size(place.site_id) + size(place.fleet_id) + size(place.id);
    if (part.length > 0 && bytes + (has_own || !fleets.has(place.fleet_id) ? whole : 0) > bytes_max) {
      yield part;
      [part, bytes, fleets] = [[], 0, new Set()];
    }
    if (has_own || !fleets.has(place.fleet_id)) bytes += whole;
    if (!has_own) fleets.add(place.fleet_id);
    part.push(place);
  }
  if (part.length > 0) yield part;
}

class FileMaker {
  readonly #db: Db;
  readonly #plane: Pick<Sealing, "secrets">;
  readonly #org_id: string;
  #secrets: OrgSecrets | undefined;
  readonly #schemas = new Map<string, CompiledSchema | undefined>();

  constructor(db: Db, plane: Pick<Sealing, "secrets">, org_id: string) {
    this.#db = db;
    this.#plane = plane;
    this.#org_id = org_id;
  }

  async filesOf(namespaces: ReadonlyMap<string, ReadonlyMap<string, EntryRow>>, empty: readonly string[]): Promise<RobotFiles> {
    const all = new Map<string, ReadonlyMap<string, EntryRow>>([
      ...empty.map((namespace) => [namespace, new Map<string, EntryRow>()] as const),
      ...namespaces,
    ]);
    // Registry logins are never files: a robot gets a login only in the message with the image that needs it.
    all.delete(REGISTRIES_NAMESPACE);
    await this.#readSchemas([...all.keys()]);
    const files = new Map<string, ConfigFile>();
    let refusal: string | null = null;
    for (const [namespace, entries] of all) {
      const secret_keys = new Set([...entries.values()].filter(({ sealed }) => sealed !== null).map(({ key }) => key));
      const values = await this.#valuesOf(entries);
      const violation = this.#schemas.get(namespace)?.whole(values, secret_keys);
      if (violation !== undefined) refusal ??= sentenceOf(namespace, violation);
      files.set(namespace, secret_keys.size === 0 ? configFile(values) : await this.#sealedFile(values, secret_keys));
    }
    return { files, refusal };
  }

  async #valuesOf(entries: ReadonlyMap<string, EntryRow>): Promise<Map<string, JsonValue>> {
    const values = new Map<string, JsonValue>();
    for (const [key, { id, version, value, sealed }] of entries) {
      values.set(key, sealed === null ? value : (JSON.parse((await this.#open()).open(sealed, entryBound(id, version))) as JsonValue));
    }
    return values;
  }

  async #sealedFile(values: ReadonlyMap<string, JsonValue>, secret_keys: ReadonlySet<string>): Promise<ConfigFile> {
    const secrets = await this.#open();
    // Include the names of the secret keys in the fingerprint. Otherwise a file would keep its digest when a value changes from secret to
    // public.
    const keys = [...secret_keys].toSorted();
    const { content, sha256 } = saltedFile(values, (text) => secrets.fingerprint(JSON.stringify([text, keys])));
    return { sha256, content: secrets.seal(JSON.stringify({ content, secret_keys: keys }), fileBound(sha256)) };
  }

  async #open(): Promise<OrgSecrets> {
    return (this.#secrets ??= await openOrgSecrets(this.#db, this.#plane, this.#org_id));
  }

  async #readSchemas(namespaces: readonly string[]): Promise<void> {
    const unread = namespaces.filter((namespace) => !this.#schemas.has(namespace));
    if (unread.length === 0) return;
    const rows = new Map((await listSchemasOf(this.#db, this.#org_id, unread)).map((row) => [row.namespace, row.value_schema]));
    for (const namespace of unread) this.#schemas.set(namespace, rows.has(namespace) ? compileSchema(rows.get(namespace)) : undefined);
  }
}
