import { type Hello, Hello as HelloSchema, type RobotMessage, robotMessages } from "@roamfleet/protocol/link/messages";
import { Ajv, type ValidateFunction } from "ajv";

/** A message that violates the protocol. The link is closed with code 1008 and this message. */
export class MessageError extends Error {}

const ajv = new Ajv({ strict: false });
const validators = new Map<string, ValidateFunction>(Object.entries(robotMessages).map(([type, schema]) => [type, ajv.compile(schema)]));

/** Start of the JSON text of an agent's log flush. The array of records follows, then `END`. */
const LOGS_START = '{"type":"logs","records":';
const END = "}".charCodeAt(0);
const json_of_records = new WeakMap<object, Uint8Array>();

/** Returns the JSON that the records of a flush were parsed from; undefined if the message had another form. */
export const jsonOfRecords = (records: object): Uint8Array | undefined => json_of_records.get(records);

/** Parses a log flush in the form that agents write. Keeps the records' JSON, because serializing them again costs as much as parsing. */
function parseLogs(message: Buffer): unknown {
  const { length } = LOGS_START;
  if (message.toString("latin1", 0, length) !== LOGS_START || message.at(-1) !== END) return undefined;
  const json = message.subarray(length, -1);
  const text = json.toString("utf8");
  if (text.includes("\\u")) return undefined;
  let records: unknown;
  try {
    records = JSON.parse(text);
  } catch {
    // Either data follows the array, or the message is not JSON.
    return undefined;
  }
  if (!Array.isArray(records)) return undefined;
  json_of_records.set(records, json);
  return { type: "logs", records };
}

function parseJson(message: Buffer): unknown {
  const text = message.toString("utf8");
  const value: unknown = JSON.parse(text);
  return text.includes("\\u") ? storable(value, STORABLE_DEPTH_MAX) : value;
}

/** Maximum JSON values in a message. Parsed, each takes 16 to 256 bytes, even if its text is short. A flush of 256 KiB has fewer. */
export const MESSAGE_VALUES_MAX = 100_000;
/** Messages with fewer bytes are not checked, because they always have fewer than MESSAGE_VALUES_MAX values. */
const WEIGHED_BYTES_MIN = 64 * 1024;
const [OBJECT, ARRAY, COMMA, QUOTE, BACKSLASH] = ["{", "[", ",", '"', "\\"].map((text) => text.charCodeAt(0));

/**
 * Returns whether a message has too many values. Counts the characters that start or separate values, outside of strings, which takes 2 ms
 * per MiB.
 */
function hasTooManyValues(message: Buffer): boolean {
  if (message.length < WEIGHED_BYTES_MIN) return false;
  let values = 0;
  let in_text = false;
  for (let i = 0; i < message.length; i += 1) {
    const byte = message[i];
    if (byte === QUOTE) in_text = !in_text;
    else if (in_text) i += byte === BACKSLASH ? 1 : 0;
    else if (byte === COMMA || byte === OBJECT || byte === ARRAY) values += 1;
  }
  return values > MESSAGE_VALUES_MAX;
}

/** Removes fields of a newer robot's hello that this server does not know. */
function knownOf(hello: Hello): Hello {
  const known = Object.entries(hello).filter(([name]) => name in HelloSchema.properties);
  return Object.fromEntries(known) as Hello;
}

/** Parses and validates one message of a robot. */
export function parseMessage(bytes: Uint8Array): RobotMessage {
  let value: unknown;
  const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (hasTooManyValues(message)) throw new MessageError(`message has more than ${MESSAGE_VALUES_MAX} values`);
  try {
    value = parseLogs(message) ?? parseJson(message);
  } catch {
    throw new MessageError("message is not JSON");
  }
  const type = (value as { type?: unknown } | null)?.type;
  const validate = typeof type === "string" ? validators.get(type) : undefined;
  if (validate === undefined) throw new MessageError("message has an unknown type");
  if (!validate(value)) {
    const error = validate.errors?.[0];
    throw new MessageError(`${String(type)}${error?.instancePath.slice(0, 60) ?? ""} ${error?.message ?? "is not valid"}`);
  }
  const checked = value as RobotMessage;
  return checked.type === "hello" ? knownOf(checked) : checked;
}

/** Replaces NUL and lone surrogates, which PostgreSQL refuses, by U+FFFD. Output and names of a robot's programs may contain them. */
export const storableText = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");

/**
 * Maximum depth to which `storable` converts a message. Only the fields of log records can be deeper, and the server replaces such fields.
 * A JSON.parse reviver is not used, because deep nesting would overflow its stack.
 */
const STORABLE_DEPTH_MAX = 70;

/** Applies `storableText` to every text in a message. */
function storable(value: unknown, levels: number): unknown {
  if (typeof value === "string") return storableText(value);
  if (typeof value !== "object" || value === null || levels === 0) return value;
  if (Array.isArray(value)) return value.map((item: unknown) => storable(item, levels - 1));
  // Built with fromEntries: assigning a field `__proto__` would set the prototype.
  return Object.fromEntries(
    Object.entries(value).map(([name, field]: [string, unknown]) => [storableText(name), storable(field, levels - 1)]),
  );
}
