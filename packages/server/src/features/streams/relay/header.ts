import type { IncomingMessage } from "node:http";

/** Header of requests between nodes: an admission or a request for a share, as JSON in base64url. */
export const NODE_HEADER = "roamfleet-node";
const CHARACTERS_MAX = 16 * 1024;

export const encodeHeader = (said: object): string => Buffer.from(JSON.stringify(said)).toString("base64url");

/** Returns the parsed value, which the caller must validate; undefined if it cannot be parsed. */
export function decodeHeader({ headers }: IncomingMessage): unknown {
  const text = headers[NODE_HEADER];
  if (typeof text !== "string" || text.length > CHARACTERS_MAX) return undefined;
  try {
    return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
