import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Clock } from "@roamfleet/clock";
import type { MetricEndpoint } from "../../metric-endpoints.ts";

const HEADER_BYTES_MAX = 16_384;

export interface Outgoing {
  /** Appended to the path of the service. */
  path?: string;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array | string;
  /** Time for the whole exchange: connecting, sending and receiving. */
  timeout_ms: number;
  /** Further bytes of the response are not read. */
  response_bytes_max: number;
}

export interface Incoming {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  text: string;
  /** Whether the response was longer than `response_bytes_max`. `text` is then only its start. */
  is_cut: boolean;
}

/**
 * Sends a POST request to a service of the operator and returns the start of its response. Follows no redirect.
 *
 * @throws an error whose message contains neither the URL nor credentials.
 */
export async function exchange(
  { clock, signal }: { clock: Pick<Clock, "setTimer">; signal?: AbortSignal },
  { url, token }: MetricEndpoint,
  { path = "", headers, body, timeout_ms, response_bytes_max }: Outgoing,
): Promise<Incoming> {
  const { promise, resolve, reject } = Promise.withResolvers<Incoming>();
  const target = new URL(url);
  if (path !== "") target.pathname = `${target.pathname.replace(/\/$/, "")}${path}`;
  const send = target.protocol === "https:" ? httpsRequest : httpRequest;
  const outgoing = send(target, {
    method: "POST",
    agent: false,
    maxHeaderSize: HEADER_BYTES_MAX,
    headers: {
      "user-agent": "roamfleet",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers,
      "content-length": String(Buffer.byteLength(body)),
    },
  });
  const end = (reason: string): void => {
    reject(new Error(reason));
    outgoing.destroy();
  };
  const timer = clock.setTimer(timeout_ms, () => end("no complete response in time"));
  const stop = (): void => end("the server stopped");
  signal?.addEventListener("abort", stop);
  if (signal?.aborted === true) stop();
  outgoing.on("error", (error: NodeJS.ErrnoException) => reject(new Error(`the connection failed: ${error.code ?? "unknown error"}`)));
  outgoing.on("response", (incoming) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const respond = (is_cut: boolean): void => {
      const text = Buffer.concat(chunks).toString("utf8", 0, response_bytes_max);
      resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text, is_cut });
    };
    incoming.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes <= response_bytes_max) return;
      respond(true);
      outgoing.destroy();
    });
    incoming.on("end", () => respond(false));
    incoming.on("error", () => end("the connection failed during the response"));
  });
  outgoing.end(body);
  try {
    return await promise;
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", stop);
  }
}
