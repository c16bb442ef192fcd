import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { dirname } from "node:path";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText, makeDirectory } from "../disk/write-atomically.ts";
import { EVENT_READERS_MAX, type EventRing, streamEvents } from "./events.ts";
import { type AgentView, answerLocal, EVENTS_PATH, LocalError, SAMPLES_ROUTE, takeSamples } from "./routes.ts";
import { clearSocket, openToGroup, socketIn } from "./socket-path.ts";
import { readAll } from "../runtime/byte-reader.ts";

/** Maximum concurrent connections; further ones are closed immediately. */
export const LOCAL_CLIENTS_MAX = 32;
export const LOCAL_BODY_BYTES_MAX = 4 * 1024;
/** Maximum body with samples of metrics: some thousand samples. */
export const SAMPLES_BODY_BYTES_MAX = 256 * 1024;
/** Time limit for receiving a complete request. */
export const REQUEST_TIMEOUT_MS = 10_000;
export const HEADER_BYTES_MAX = 8 * 1024;
/** Delay before the server tries again to listen. Listening may fail while a disk is full or read-only. */
const LISTEN_RETRY_MS = 10_000;

interface LocalApiOptions {
  socket: string;
  group?: string | undefined;
  state_directory: string;
  view: AgentView;
  ring: EventRing;
  clock: Clock;
  log: Logger;
}

/** HTTP server on a unix socket, for the robot's own software. A failure never ends the agent: it is logged and retried. */
export class LocalApi {
  readonly #options: LocalApiOptions;
  #server: Server | undefined;
  #retry: Timer | undefined;
  #starting: Promise<void> | undefined;
  #stopped = false;
  #trouble: string | undefined;

  constructor(options: LocalApiOptions) {
    this.#options = options;
  }

  /** Starts listening. Resolves when the server listens, or after the first failed attempt. */
  start(): Promise<void> {
    return (this.#starting = this.#listen());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#retry?.cancel();
    await this.#starting;
    const server = this.#server;
    if (server === undefined) return;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
    rmSync(this.#options.socket, { force: true });
  }

  async #listen(): Promise<void> {
    const { socket, group, state_directory, clock, log } = this.#options;
    const server = createServer(
      { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS, maxHeaderSize: HEADER_BYTES_MAX },
      (request, response) => void this.#serve(request, response),
    );
    server.maxConnections = LOCAL_CLIENTS_MAX;
    server.on("error", (error) => {
      if (this.#server === server) log.error({ reason: errorText(error) }, "the local socket failed");
    });
    try {
      if (socket === socketIn(state_directory)) makeDirectory(dirname(socket));
      await clearSocket(socket, clock);
      server.listen({ path: socket });
      await once(server, "listening");
      openToGroup(socket, state_directory, group);
    } catch (error) {
      server.close();
      const reason = errorText(error);
      if (reason !== this.#trouble) log.error({ socket, reason }, "the local socket could not be opened, trying again");
      this.#trouble = reason;
      if (!this.#stopped) this.#retry = clock.setTimer(LISTEN_RETRY_MS, () => void (this.#starting = this.#listen()));
      return;
    }
    this.#server = server;
    log.info({ socket }, "the local socket is open");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { view, ring, log } = this.#options;
    try {
      const url = new URL(request.url ?? "/", "http://robot");
      const method = request.method ?? "GET";
      if (url.pathname === EVENTS_PATH && method === "GET") {
        if (ring.listeners >= EVENT_READERS_MAX)
          throw new LocalError(503, "busy", `${EVENT_READERS_MAX} readers of events are already connected, the maximum`);
        return streamEvents(request, response, this.#options);
      }
      const is_samples = `${method} ${url.pathname}` === SAMPLES_ROUTE;
      const bytes = await readBody(request, is_samples ? SAMPLES_BODY_BYTES_MAX : LOCAL_BODY_BYTES_MAX);
      const data = is_samples
        ? takeSamples(view, request.headers["content-type"], bytes)
        : answerLocal(view, method, { path: url.pathname, query: url.searchParams, body: parsed(bytes) });
      send(response, 200, { data });
    } catch (error) {
      if (request.destroyed && !request.complete) return;
      if (error instanceof LocalError) {
        send(response, error.status, { error: { code: error.code, message: error.message, ...error.details } });
        return;
      }
      log.error({ reason: errorText(error) }, "a request at the local socket failed");
      send(response, 500, { error: { code: "internal", message: "the agent could not answer; its log has the reason" } });
    }
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  // Close the connection after this response. Otherwise the unread rest of the body would be parsed as the next request.
  const more = status === 413 ? { connection: "close" } : {};
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...more });
  response.end(`${JSON.stringify(body)}\n`);
}

function readBody(request: IncomingMessage, bytes_max: number): Promise<Buffer> {
  // Keep the socket open if the body is too large, since the error response still has to be sent.
  const stream = request.iterator({ destroyOnReturn: false });
  return readAll(stream, bytes_max, () => new LocalError(413, "too_large", `the body has more than ${bytes_max} bytes`));
}

function parsed(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString("utf8")) as unknown;
  } catch {
    throw new LocalError(400, "invalid", "the body is not JSON");
  }
}
