import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { MessageReader } from "@foxglove/rosmsg2-serialization";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { parse as parseMsg } from "@foxglove/rosmsg";
import { errorText } from "../../disk/write-atomically.ts";
import { type Decode, UndecodedMessage } from "../adapter.ts";

/** Maximum types whose definitions are cached. */
const TYPES_MAX = 1_000;

/** Interval between two searches for the definition of a type that was not found. */
const UNKNOWN_MS = 10_000;

interface DecoderOptions {
  prefixes: readonly string[];
  distro: string | null;
  clock: Clock;
  log: Logger;
}

/** Decodes ROS 2 messages (CDR) with the definitions of their types. Searches for each definition once and caches it. */
export class Decoder {
  readonly #options: DecoderOptions;
  readonly #types = new Map<string, Promise<Decode>>();

  constructor(options: DecoderOptions) {
    this.#options = options;
  }

  /** Returns the decoder of a type. Never rejects and never throws: unreadable messages become an UndecodedMessage. */
  find(type: string): Promise<Decode> {
    let found = this.#types.get(type);
    if (found === undefined) {
      // Limit the cache, since type names come from the network. When it is full, it is cleared.
      if (this.#types.size >= TYPES_MAX) this.#types.clear();
      found = this.#find(type);
      this.#types.set(type, found);
    }
    return found;
  }

  async #find(type: string): Promise<Decode> {
    const { prefixes, distro, clock, log } = this.#options;
    try {
      const [{ MessageReader }, { definitions, source }] = await Promise.all([
        import("@foxglove/rosmsg2-serialization"),
        findDefinitions(type, prefixes, distro),
      ]);
      log.info({ type, source }, "decoding a ROS type");
      return decodeBy(new MessageReader(definitions), type, source);
    } catch (error) {
      const reason = errorText(error);
      if (!(error instanceof UnknownType)) log.warn({ type, reason }, "the definition of a ROS type cannot be used");
      // Search again after a time, since the type's package may have been installed by then.
      clock.setTimer(UNKNOWN_MS, () => this.#types.delete(type));
      return (bytes) => new UndecodedMessage(bytes, reason);
    }
  }
}

function decodeBy(reader: MessageReader, type: string, source: string): Decode {
  return (bytes) => {
    try {
      return reader.readMessage(bytes);
    } catch (error) {
      return new UndecodedMessage(bytes, `does not match the definition of ${type} in ${source}: ${errorText(error)}`);
    }
  };
}

type MessageDefinition = ReturnType<typeof parseMsg>[number];

/** Maximum number of types that are nested in one message type. */
const DEFINITIONS_MAX = 500;
const DEFINITION_BYTES_MAX = 256 * 1024;

interface TypeDefinition {
  /** The definition of the type itself, followed by those of its nested types. */
  definitions: MessageDefinition[];
  /** Where the definitions were found: a file of the robot, or the agent's own list. */
  source: string;
}

/** Thrown for a type that cannot be decoded. Its message states the reason for people. */
export class UnknownType extends Error {}

/**
 * Pattern of a ROS 2 type such as `std_msgs/msg/String`. Names become parts of paths, so only letters, digits and underscores are allowed.
 */
const TYPE = /^([A-Za-z]\w*)\/(msg|srv|action)\/([A-Za-z]\w*)$/;

/**
 * Returns the definitions of a type and its nested types. Searches the `.msg` files below the prefixes (AMENT_PREFIX_PATH), then their
 * `.idl` files, then the agent's list of common types. Throws UnknownType.
 */
export async function findDefinitions(type: string, prefixes: readonly string[], distro: string | null): Promise<TypeDefinition> {
  if (!TYPE.test(type)) throw new UnknownType(`${type} is not a ROS 2 type`);
  const wrong: string[] = [];
  for (const find of [findMsg, findIdl]) {
    try {
      const found = await find(type, prefixes);
      if (found !== undefined) return found;
    } catch (error) {
      wrong.push(errorText(error));
    }
  }
  const common = await findCommon(type, distro);
  if (common !== undefined) return common;
  if (wrong.length > 0) throw new UnknownType(`the definition of ${type} cannot be read: ${wrong.join("; ")}`);
  const where = prefixes.length === 0 ? "AMENT_PREFIX_PATH is not set for the agent" : `${prefixes.join(", ")} do not contain it`;
  throw new UnknownType(`no definition of ${type}: ${where}, and it is not a common type`);
}

/** Returns a type's name without its folder, as definitions use it: `std_msgs/Header`. */
const shortName = (type: string): string => type.replace(/\/(msg|srv|action)\//, "/");

async function findMsg(type: string, prefixes: readonly string[]): Promise<TypeDefinition | undefined> {
  const { parse } = await import("@foxglove/rosmsg");
  const definitions = new Map<string, MessageDefinition>();
  let source: string | undefined;
  const add = async (wanted: string): Promise<boolean> => {
    const file = await readDefinition(wanted, "msg", prefixes);
    if (file === undefined) return false;
    source ??= file.path;
    const own_package = wanted.slice(0, wanted.indexOf("/"));
    const [parsed] = parse(file.text, { ros2: true, skipTypeFixup: true });
    const fields = (parsed?.definitions ?? []).map((field) => {
      if (field.isComplex !== true) return field;
      return { ...field, type: shortName(field.type.includes("/") ? field.type : `${own_package}/${field.type}`) };
    });
    definitions.set(shortName(wanted), { name: shortName(wanted), definitions: fields });
    if (definitions.size > DEFINITIONS_MAX) throw new Error(`${type} contains more than ${DEFINITIONS_MAX} types`);
    for (const field of fields) {
      if (field.isComplex !== true || definitions.has(field.type)) continue;
      if (!(await add(field.type.replace("/", "/msg/")))) throw new Error(`${field.type}, which ${wanted} contains, is missing`);
    }
    return true;
  };
  if (!(await add(type))) return undefined;
  return { definitions: Array.from(definitions.values()), source: source ?? "" };
}

const INCLUDE = /^\s*#include\s+"([A-Za-z]\w*\/(?:msg|srv|action)\/\w+)\.idl"/gm;
const SECTION = `\n${"=".repeat(80)}\n`;

async function findIdl(type: string, prefixes: readonly string[]): Promise<TypeDefinition | undefined> {
  const texts = new Map<string, string>();
  let source: string | undefined;
  const add = async (wanted: string): Promise<boolean> => {
    const file = await readDefinition(wanted, "idl", prefixes);
    if (file === undefined) return false;
    source ??= file.path;
    texts.set(wanted, file.text);
    if (texts.size > DEFINITIONS_MAX) throw new Error(`${type} contains more than ${DEFINITIONS_MAX} types`);
    for (const [, included = ""] of file.text.matchAll(INCLUDE))
      if (!texts.has(included) && !(await add(included))) throw new Error(`${included}.idl, which ${wanted}.idl includes, is missing`);
    return true;
  };
  if (!(await add(type))) return undefined;
  const { parseRos2idl } = await import("@foxglove/ros2idl-parser");
  const parsed = parseRos2idl(Array.from(texts, ([name, text]) => `${SECTION}IDL: ${name}\n${text}`).join(""));
  const root = parsed.find(({ name }) => name === type || name === shortName(type));
  if (root === undefined) throw new Error(`${type}.idl does not define the type`);
  return { definitions: [root, ...parsed.filter((one) => one !== root)], source: source ?? "" };
}

/** The newest ROS distribution. Its definitions are used if the robot's distribution is unknown. */
const COMMON_DEFAULT = "jazzy";

async function findCommon(type: string, distro: string | null): Promise<TypeDefinition | undefined> {
  const { ros2galactic: galactic, ros2humble: humble, ros2iron: iron, ros2jazzy: jazzy } = await import("@foxglove/rosmsg-msgs-common");
  const lists: Record<string, Record<string, MessageDefinition>> = { galactic, humble, iron, jazzy };
  const name = distro !== null && Object.hasOwn(lists, distro) ? distro : COMMON_DEFAULT;
  const list = lists[name] ?? {};
  const found = new Map<string, MessageDefinition>();
  const add = (wanted: string): boolean => {
    const definition = Object.hasOwn(list, wanted) ? list[wanted] : undefined;
    if (definition === undefined) return false;
    found.set(wanted, definition);
    return definition.definitions.every((field) => field.isComplex !== true || found.has(field.type) || add(field.type));
  };
  return add(shortName(type))
    ? { definitions: Array.from(found.values()), source: `the common types of ROS 2 ${name} that come with the agent` }
    : undefined;
}

async function readDefinition(
  type: string,
  extension: "msg" | "idl",
  prefixes: readonly string[],
): Promise<{ path: string; text: string } | undefined> {
  const [, in_package = "", folder = "", name = ""] = TYPE.exec(type) ?? [];
  if (name === "") return undefined;
  for (const prefix of prefixes) {
    const path = join(prefix, "share", in_package, folder, `${name}.${extension}`);
    try {
      const bytes = await readFile(path);
      if (bytes.length > DEFINITION_BYTES_MAX) throw new Error(`${path} is longer than ${DEFINITION_BYTES_MAX} bytes`);
      return { path, text: bytes.toString("utf8") };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  return undefined;
}
