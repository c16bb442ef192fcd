import { type Agent, type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { randomBytes } from "node:crypto";
import { type Activity, type Clock, idleActivity, IdleTimeout } from "@roamfleet/clock";
import { channelBinding, hostOf, httpRequestText, REQUEST_NONCE_BYTES, robotAuthorization } from "@roamfleet/protocol/link";
import type { FetchAnswer, Fetcher } from "../contract.ts";
import { fieldsOf, parseObject } from "../json.ts";
import { isSecured } from "./server-agent.ts";
import type { RobotKey } from "../identity/robot-key.ts";
import type { RobotTime } from "../robot-time.ts";
import { readAll } from "../runtime/byte-reader.ts";

/** Idle timeout of a request, while it waits for the response and while it reads the body. */
const HTTP_SILENCE_MS = 30_000;

interface HttpRequest {
  method: "GET" | "POST";
  url: string;
  headers?: Record<string, string>;
  /** Returns further headers. It is called once the connection is open: `channel` is the TLS channel binding, or "" without TLS. */
  bound_headers?: (channel: string) => Promise<Record<string, string>>;
  body?: string;
  signal: AbortSignal;
}

export type HttpClient = (request: HttpRequest) => Promise<FetchAnswer>;

/**
 * Returns a function that sends one HTTP request: no redirects, no decompression, and no connection pool, since a robot's network often
 * kills idle connections. It rejects if the server is unreachable or silent for HTTP_SILENCE_MS. With `ca`, only that authority is trusted.
 */
export function httpClient(clock: Clock, activity: Activity = idleActivity, tls: { ca?: string; agent?: Agent } = {}): HttpClient {
  return async ({ method, url, headers = {}, bound_headers, body, signal }) => {
    signal.throwIfAborted();
    const send = url.startsWith("https:") ? httpsRequest : httpRequest;
    const length: Record<string, string> = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
    // The robot's signature contains the TLS channel binding, which requires TLS 1.3.
    const options = { agent: false, minVersion: "TLSv1.3", ...tls, method, headers: { ...headers, ...length }, signal } as const;
    const request = send(url, options);
    const silent = new Error(`the server sent nothing for ${HTTP_SILENCE_MS / 1000} s`);
    const idle = new IdleTimeout(clock, HTTP_SILENCE_MS, () => request.destroy(silent));
    const ended = activity.begin();
    try {
      const response = await answerOf(request, body, bound_headers);
      idle.touch();
      return {
        status: response.statusCode ?? 0,
        headers: { get: (name) => headerOf(response, name) },
        body: readBody(response, idle, activity),
      };
    } catch (error) {
      idle.stop();
      throw error;
    } finally {
      ended();
    }
  };
}

function answerOf(request: ClientRequest, body: string | undefined, bound: HttpRequest["bound_headers"]): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on("response", resolve);
    // Keep this listener after the response has begun. Without a listener, a later error would be an uncaught exception instead of reaching
    // the reader of the body.
    request.on("error", reject);
    if (bound === undefined) return void request.end(body);
    return void request.once("socket", (socket: Socket) => {
      const send = async (): Promise<void> => {
        try {
          for (const [name, value] of Object.entries(await bound(channelBinding(socket)))) request.setHeader(name, value);
          request.end(body);
        } catch (error) {
          request.destroy(error as Error);
        }
      };
      if (socket instanceof TLSSocket && !isSecured(socket)) socket.once("secureConnect", () => void send());
      else void send();
    });
  });
}

async function* readBody(response: IncomingMessage, idle: IdleTimeout, activity: Activity): AsyncGenerator<Uint8Array> {
  const ended = activity.begin();
  try {
    for await (const chunk of response) {
      // Stop the timer while the reader handles a chunk: time spent on a slow disk must not count as silence of the server.
      idle.stop();
      yield chunk as Buffer;
      idle.resume();
    }
    if (!response.complete) throw new Error("the connection was lost before the end of the response");
  } finally {
    idle.stop();
    response.destroy();
    ended();
  }
}

function headerOf(response: IncomingMessage, name: string): string | null {
  const value = response.headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(", ") : (value ?? null);
}

/** Reads a response to its end. Throws if it is longer than `bytes_max`. */
export const readText = async (answer: FetchAnswer, bytes_max: number): Promise<string> =>
  (await readAll(answer.body, bytes_max, () => new Error(`the response is larger than ${bytes_max} bytes`))).toString("utf8");

/** Returns the message of the server's error response; undefined for any other text, such as an error page of a proxy. */
export function envelopeMessage(text: string): string | undefined {
  const { message } = fieldsOf(parseObject(text)?.["error"]);
  return typeof message === "string" ? message.slice(0, 500) : undefined;
}

/** Sends signed GETs to the server. Each signature covers server, connection, path and time, and is valid for one request. */
export function signedFetcher(options: { server: string; robot_id: string; key: RobotKey; time: RobotTime; http: HttpClient }): Fetcher {
  const { server, robot_id, key, time, http } = options;
  const host = hostOf(server);
  return {
    get: (path, { range_start, if_range, signal }) => {
      const range: Record<string, string> = range_start
        ? { range: `bytes=${range_start}-`, ...(if_range ? { "if-range": if_range } : {}) }
        : {};
      return http({
        method: "GET",
        url: server + path,
        headers: { "accept-encoding": "identity", ...range },
        bound_headers: async (channel) => {
          const nonce = randomBytes(REQUEST_NONCE_BYTES).toString("base64url");
          const request = { host, channel, method: "GET", path, at: time.serverTime(), nonce };
          return { authorization: robotAuthorization(robot_id, request, await key.sign(httpRequestText(robot_id, request))) };
        },
        signal,
      });
    },
  };
}
