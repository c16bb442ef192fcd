import { type RobotMessage, robotMessages } from "@robofleet/protocol/link/messages";
import { Ajv, type ValidateFunction } from "ajv";

/** A message that breaks the protocol; the link is closed with 1008 and this reason. */
export class MessageError extends Error {}

const ajv = new Ajv({ strict: false });
const validators = new Map<string, ValidateFunction>(Object.entries(robotMessages).map(([type, schema]) => [type, ajv.compile(schema)]));

/** Parses and checks one message of a robot. */
export function parseMessage(bytes: Uint8Array): RobotMessage {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  let value: unknown;
  try {
    value = text.includes("\\u") ? JSON.parse(text, storable) : JSON.parse(text);
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
  return value as RobotMessage;
}

/** What a program on a robot prints or names may hold what PostgreSQL refuses to store: NUL and lone surrogates become U+FFFD. */
function storable(_key: string, value: unknown): unknown {
  if (typeof value === "string") return storableText(value);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (Object.keys(value).every((name) => storableText(name) === name)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]: [string, unknown]) => [storableText(name), field]));
}

const storableText = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");
