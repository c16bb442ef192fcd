import { type Hello, Hello as HelloSchema, type RobotMessage, robotMessages } from "@roamfleet/protocol/link/messages";
import { Ajv, type ValidateFunction } from "ajv";

/** A message that breaks the protocol; the link is closed with 1008 and this reason. */
export class MessageError extends Error {}

const ajv = new Ajv({ strict: false });
const validators = new Map<string, ValidateFunction>(Object.entries(robotMessages).map(([type, schema]) => [type, ajv.compile(schema)]));

/** How agents begin a flush of their log; after it stands the array of records, and then the end. */
const LOGS_START = '{"type":"logs","records":';
const END = "}".charCodeAt(0);
const json_of_records = new WeakMap<object, Uint8Array>();

/** The JSON that the records of a flush were read from; undefined when they were read from something else. */
export const jsonOfRecords = (records: object): Uint8Array | undefined => json_of_records.get(records);

/** The message when it is a flush as agents write it; the bytes of its records are kept, as to write them again costs as much as to read them. */
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
    // Something stands behind the array, or it is no JSON at all.
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

/** Values of one message: parsed they take 16 to 256 bytes each, however short they are as text. A flush of 256 KiB has fewer. */
export const MESSAGE_VALUES_MAX = 100_000;
/** A shorter message has fewer values in any case. */
const WEIGHED_BYTES_MIN = 64 * 1024;
const [OBJECT, ARRAY, COMMA, QUOTE, BACKSLASH] = ["{", "[", ",", '"', "\\"].map((text) => text.charCodeAt(0));

/** Counts what begins or separates values, and skips texts: a bound that costs 2 ms a MiB. */
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

/** A newer robot may say more than this server knows: that is not kept. */
function knownOf(hello: Hello): Hello {
  const known = Object.entries(hello).filter(([name]) => name in HelloSchema.properties);
  return Object.fromEntries(known) as Hello;
}

/** Parses and checks one message of a robot. */
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

/** What a program on a robot prints or names may hold what PostgreSQL refuses to store: NUL and lone surrogates become U+FFFD. */
export const storableText = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");

/** Deeper levels are in fields of log records alone, which are replaced when they are so deep. A reviver would overflow the stack. */
const STORABLE_DEPTH_MAX = 70;

/** The same for every text in a message. */
function storable(value: unknown, levels: number): unknown {
  if (typeof value === "string") return storableText(value);
  if (typeof value !== "object" || value === null || levels === 0) return value;
  if (Array.isArray(value)) return value.map((item: unknown) => storable(item, levels - 1));
  // Not assigned one by one: `__proto__` is a name like others here.
  return Object.fromEntries(
    Object.entries(value).map(([name, field]: [string, unknown]) => [storableText(name), storable(field, levels - 1)]),
  );
}
