import type { IncomingMessage } from "node:http";

/** In a request of one node to another: what it has found out, as JSON in base64url. */
export const NODE_HEADER = "roamfleet-node";
const CHARACTERS_MAX = 16 * 1024;

export const encodeHeader = (said: object): string => Buffer.from(JSON.stringify(said)).toString("base64url");

/** Undefined when it cannot be read. What it is has to be looked at. */
export function decodeHeader({ headers }: IncomingMessage): unknown {
  const text = headers[NODE_HEADER];
  if (typeof text !== "string" || text.length > CHARACTERS_MAX) return undefined;
  try {
    return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
