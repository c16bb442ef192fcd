import { type IncomingMessage, request as httpRequest } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";

/** Timeout for the response of a node. The node writes to the database before it responds. */
const ANSWER_TIMEOUT_MS = 10_000;
const REFUSAL_BYTES_MAX = 64 * 1024;

export type NodeAnswer =
  | { upgraded: true; lines: string; socket: Socket; head: Buffer }
  /** A complete HTTP error response. The connection ends after it. */
  | { upgraded: false; response: Buffer };

/** Requests a WebSocket connection from another node. Rejects if the node does not respond in time, or closes the connection first. */
export function askNode(
  socket: TLSSocket,
  { path, headers }: { path: string; headers: Record<string, string> },
  clock: Pick<Clock, "setTimer">,
): Promise<NodeAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<NodeAnswer>();
  const late = clock.setTimer(ANSWER_TIMEOUT_MS, () => reject(new Error("does not answer")));
  const outgoing = httpRequest({
    path,
    headers: { ...headers, connection: "Upgrade", upgrade: "websocket" },
    createConnection: () => socket,
  });
  outgoing.on("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
  outgoing.once("upgrade", (response, upgraded, head) => resolve({ upgraded: true, lines: linesOf(response), socket: upgraded, head }));
  outgoing.once("response", (response) => void readRefusal(response).then(resolve, reject));
  outgoing.end();
  promise.catch(() => socket.destroy());
  return promise.finally(() => late.cancel());
}

/** Returns the status line and headers of a response unchanged, including the empty line after them. */
function linesOf({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const headers = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}\r\n`] : []));
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${headers.join("")}\r\n`;
}

async function readRefusal(response: IncomingMessage): Promise<NodeAnswer> {
  const parts: Buffer[] = [Buffer.from(linesOf(response), "latin1")];
  let bytes = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > REFUSAL_BYTES_MAX) throw new Error("its error response is too long");
    parts.push(part);
  }
  return { upgraded: false, response: Buffer.concat(parts) };
}

/**
 * The header in which nodes send each other data about a request, as JSON in base64url: an admitted viewer, or the fleet whose logs are
 * requested.
 */
export const NODE_HEADER = "roamfleet-node";
const CHARACTERS_MAX = 16 * 1024;

export const encodeHeader = (said: object): string => Buffer.from(JSON.stringify(said)).toString("base64url");

/**
 * Returns the parsed value of the header NODE_HEADER, which the caller must validate. Returns undefined if the header is missing, too long
 * or not JSON.
 */
export function decodeHeader({ headers }: IncomingMessage): unknown {
  const text = headers[NODE_HEADER];
  if (typeof text !== "string" || text.length > CHARACTERS_MAX) return undefined;
  try {
    return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
