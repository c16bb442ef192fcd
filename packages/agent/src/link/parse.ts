import type { Refused, ServerMessage, Welcome } from "@roamfleet/protocol/link";
import { FrameError } from "@roamfleet/protocol/link";
import { parseDesired } from "./desired-store.ts";

/** The agent loads no schema library: the fields of server messages that it uses are validated by hand. */

const HEARTBEAT_SECONDS = { min: 0.1, max: 3_600 };
const HEALTH_SECONDS = { min: 0.1, max: 86_400 };
const LOG_FLUSH_MS = { min: 5, max: 60_000 };

export function parseObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Throws FrameError for a message with invalid fields; returns undefined for an unknown type. */
export function parseServerMessage(bytes: Uint8Array): ServerMessage | undefined {
  const value = parseObject(bytes);
  if (value === undefined) throw new FrameError("a control message is not a JSON object");
  switch (value.type) {
    case "challenge":
      return { type: "challenge", nonce: text(value, "nonce"), ...(isNumbers(value.protocols) ? { protocols: value.protocols } : {}) };
    case "welcome":
      return parseWelcome(value);
    case "refused": {
      const retry_after_ms = value.retry_after_ms;
      const wait = typeof retry_after_ms === "number" ? { retry_after_ms } : {};
      return { type: "refused", code: text(value, "code") as Refused["code"], message: text(value, "message").slice(0, 500), ...wait };
    }
    case "ack":
      return { type: "ack", seq: count(value, "seq") };
    case "log_ack":
      return { type: "log_ack", seq: count(value, "seq") };
    case "log_follow":
      return { type: "log_follow", on: value.on === true };
    case "desired": {
      const desired = parseDesired(value);
      if (desired === undefined) throw new FrameError("desired has the wrong shape");
      return desired;
    }
    default:
      return undefined;
  }
}

function parseWelcome(value: Record<string, unknown>): Welcome {
  return {
    type: "welcome",
    protocol: count(value, "protocol"),
    features: Array.isArray(value.features) ? value.features.filter((one) => typeof one === "string") : [],
    session_id: text(value, "session_id"),
    server_time: count(value, "server_time"),
    heartbeat_seconds: within(value, "heartbeat_seconds", HEARTBEAT_SECONDS),
    health_seconds: within(value, "health_seconds", HEALTH_SECONDS),
    log_flush_ms: within(value, "log_flush_ms", LOG_FLUSH_MS),
    acked_seq: count(value, "acked_seq"),
    acked_log_seq: count(value, "acked_log_seq"),
  };
}

const isNumbers = (value: unknown): value is number[] => Array.isArray(value) && value.every((one) => typeof one === "number");

function text(value: Record<string, unknown>, field: string): string {
  const found = value[field];
  if (typeof found !== "string") throw new FrameError(`${String(value.type)}.${field} is not a string`);
  return found;
}

function count(value: Record<string, unknown>, field: string): number {
  const found = value[field];
  if (typeof found !== "number" || !Number.isSafeInteger(found) || found < 0)
    throw new FrameError(`${String(value.type)}.${field} is not a non-negative integer`);
  return found;
}

/** Limits an interval with which the agent would spin or sleep forever. */
function within(value: Record<string, unknown>, field: string, bounds: { min: number; max: number }): number {
  const found = value[field];
  if (typeof found !== "number" || !Number.isFinite(found)) throw new FrameError(`${String(value.type)}.${field} is not a number`);
  return Math.min(bounds.max, Math.max(bounds.min, found));
}
