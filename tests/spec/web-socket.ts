import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";

const WAIT_MS = 60_000;

export interface Opened {
  ws: WebSocket;
  headers: IncomingMessage["headers"];
  /** Frames so far: text as strings, bytes as buffers. */
  frames: (string | Buffer)[];
  closed: Promise<{ code: number; reason: string }>;
}

export interface Refused {
  status: number;
  headers: IncomingMessage["headers"];
  body: { error: { code: string; message: string } };
}

/** Tries to open a WebSocket. Returns the open socket with its frames, or the error response that refused the upgrade. */
export async function openSocket(url: string, headers: Record<string, string> = {}): Promise<Opened | Refused> {
  const ws = new WebSocket(url.replace(/^http/, "ws"), { headers, handshakeTimeout: WAIT_MS });
  const frames: (string | Buffer)[] = [];
  ws.on("message", (data, binary) => frames.push(binary ? (data as Buffer) : (data as Buffer).toString()));
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    ws.once("close", (code, reason) => resolve({ code, reason: String(reason) })),
  );
  return new Promise((resolve, reject) => {
    let answered: IncomingMessage["headers"] = {};
    ws.once("upgrade", (response) => (answered = response.headers));
    ws.once("open", () => resolve({ ws, headers: answered, frames, closed }));
    ws.once("unexpected-response", (_request, response) => {
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (part: string) => (text += part));
      once(response, "end").then(() => {
        ws.terminate();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: JSON.parse(text) as Refused["body"] });
      }, reject);
    });
    ws.once("error", reject);
  });
}

/** Opens a stream; fails if it is refused. */
export async function opened(url: string, headers: Record<string, string> = {}): Promise<Opened> {
  const stream = await openSocket(url, headers);
  if ("status" in stream) throw new Error(`refused: ${stream.status} ${stream.body.error.message}`);
  return stream;
}

/** Returns `status code` of the refusal; fails if the stream opens. */
export async function refused(url: string, headers: Record<string, string> = {}): Promise<Refused> {
  const stream = await openSocket(url, headers);
  if ("status" in stream) return stream;
  stream.ws.terminate();
  throw new Error("the WebSocket opened");
}
