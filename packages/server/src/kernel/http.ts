import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { authenticateAdmin, authenticatePortal } from "./authenticate.ts";
import { BODY_BYTES_MAX, parseBody } from "./body.ts";
import { badRequest, diskFull, Fault, forbidden, httpError, notFound } from "./fault.ts";
import { Idempotency } from "./idempotency.ts";
import type { KernelPlane } from "./kernel-plane.ts";
import { measureHandshakes, type Metrics } from "./metrics.ts";
import { ReceivingBodies } from "./receiving.ts";
import { credentialsOf, type PageAnswer, type Pages } from "./serve.ts";
import { TlsHandshakeQueue } from "./tls/handshake-queue.ts";
import { QueuedTlsServer } from "./tls/queued-tls-server.ts";
import { type Tls, TLS_OPTIONS } from "./tls/tls.ts";

interface HttpOptions {
  tls: Tls | undefined;
  metrics: Metrics;
}

export interface Http {
  app: FastifyInstance;
  /** Routes with JSON bodies. */
  json: FastifyInstance;
  /** Routes that read their body as a stream. */
  streams: FastifyInstance;
  server: Server;
  idempotency: Idempotency;
  methods: Methods;
  /** Answers browsers at paths that are not API routes; set by servePages. */
  pages: { answer: Pages | undefined };
}

const SERVER_OPTIONS = {
  // Headers must arrive within this time, which bounds slow-loris attacks. For bodies, see ReceivingBodies.
  headersTimeout: 8_000,
  // The header timeout is checked often, so that many slow connections are closed in small batches. Closing 500 in one check would block
  // the event loop for 25 ms.
  connectionsCheckingInterval: 50,
  requestTimeout: 0,
  // Requests for other protocols (curl offers h2c) are served as plain HTTP.
  shouldUpgradeCallback: (request: IncomingMessage): boolean => request.headers.upgrade?.toLowerCase() === "websocket",
};
/**
 * Idle connections are closed after this time, which is longer than load balancers keep them. Otherwise the server might close a connection
 * on which a load balancer is sending a request, and the request would be lost.
 */
export const KEEP_ALIVE_TIMEOUT_MS = 125_000;
/** A socket without traffic for this long is closed, because the response that its client does not read occupies memory. */
const IDLE_TIMEOUT_MS = 120_000;
/** Time limit for a client's first byte, and again for the handshake: a silent client occupies a socket for at most 15 s. */
const TLS_HANDSHAKE_TIMEOUT_MS = 7_000;
/** Browsers that receive this header use only HTTPS for half a year. */
const HSTS = "max-age=15768000";
export const NO_PROXY = "this server accepts connections from its proxy only";
const REQUEST_ID = /^[\w.:-]{1,100}$/;
const URL_CHARACTERS_MAX = 8_192;

const APP_OPTIONS = {
  bodyLimit: BODY_BYTES_MAX,
  routerOptions: { maxParamLength: URL_CHARACTERS_MAX },
  // While the server stops, requests on open connections are still served, because their clients cannot redirect them.
  return503OnClosing: false,
};

/** The methods of each path, to distinguish 405 from 404. */
class Methods {
  readonly #paths: { pattern: RegExp; method: string }[] = [];

  add(method: string, path: string): void {
    this.#paths.push({
      method,
      pattern: new RegExp(
        `^${path
          .replace(/[.]/g, "\\.")
          .replace(/\{\w+\}/g, "[^/]+")
          .replace(/\{\w+\*\}/g, ".*")}$`,
      ),
    });
  }

  of(path: string): string[] {
    const found = this.#paths.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    return [...new Set(found.includes("GET") ? [...found, "HEAD"] : found)];
  }
}

function listener(tls: Tls | undefined, handshakes: TlsHandshakeQueue, handler: RequestListener): Server {
  if (tls === undefined) return createServer(SERVER_OPTIONS, handler);
  const timeouts = { first_byte_ms: TLS_HANDSHAKE_TIMEOUT_MS, handshakeTimeout: TLS_HANDSHAKE_TIMEOUT_MS };
  const server = new QueuedTlsServer({ ...SERVER_OPTIONS, ...TLS_OPTIONS, ...tls.pair, ...timeouts, queue: handshakes }, handler);
  tls.follow(server);
  return server;
}

/**
 * Creates the handshake queue and its metrics. All listen addresses share the queue, because a host name may resolve to several of them.
 */
function measuredHandshakes({ clock }: Pick<KernelPlane, "clock">, metrics: Metrics): TlsHandshakeQueue {
  const queue = new TlsHandshakeQueue({ clock, nextTurn: setImmediate });
  measureHandshakes(metrics, queue);
  return queue;
}

/** Returns whether a peer may connect. Behind a proxy, only the proxy may: direct connections would bypass its TLS. */
export const mayConnect = ({ proxies }: Pick<KernelPlane, "proxies">, { socket }: IncomingMessage): boolean =>
  proxies.size === 0 || proxies.has(socket.remoteAddress);

export const HOST_TWICE = "the request has two Host headers";

/** Detects requests with two Host headers: Node uses the first one, and a proxy may have used the other (RFC 9112, 3.2). */
export function namesHostTwice({ rawHeaders }: Pick<IncomingMessage, "rawHeaders">): boolean {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.length === 4 && rawHeaders[i]?.toLowerCase() === "host") hosts += 1;
  return hosts > 1;
}

/** Returns the error for a request that is refused regardless of its route. */
function refusalOf(plane: KernelPlane, request: IncomingMessage): Fault | undefined {
  if (!mayConnect(plane, request)) return forbidden(NO_PROXY);
  if (namesHostTwice(request)) return badRequest(HOST_TWICE);
  if ((request.url?.length ?? 0) > URL_CHARACTERS_MAX) return httpError(414, `the URL is longer than ${URL_CHARACTERS_MAX} characters`);
  return undefined;
}

/** Stands for the methods of a path that cannot be decoded. Such a path matches no route. */
const NO_METHODS = new Methods();

/** Creates the HTTP server with the behavior that all routes share: limits, errors, headers, 404 and 405. */
export async function createHttp(plane: KernelPlane, options: HttpOptions): Promise<Http> {
  // A request id is one random part per process and a counter, because a random id per request would cost more than routing it.
  const run = plane.id("req");
  let count = 0;
  const nextRequestId = (): string => `${run}-${(count += 1).toString(36)}`;
  const receiving = new ReceivingBodies(plane.clock, refuseLate);
  const handshakes = measuredHandshakes(plane, options.metrics);
  const app: FastifyInstance = Fastify({
    serverFactory: (handler) => {
      const server = listener(options.tls, handshakes, handler);
      // Without a listener Node answers "100 Continue" before the request is checked.
      server.on("checkContinue", handler);
      server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
      server.timeout = IDLE_TIMEOUT_MS;
      return server;
    },
    trustProxy: plane.proxies.size > 0 && ((address: string) => plane.proxies.has(address)),
    ...APP_OPTIONS,
    genReqId: (request: IncomingMessage) => requestId(request) ?? nextRequestId(),
    // Hooks do not run for these errors: a URL that is too long or cannot be decoded fails before routing.
    frameworkErrors: (error, request, reply) => {
      if (hasBody(request.raw)) receiving.watch(request.raw, reply.raw, "json");
      addCommonHeaders(request, reply);
      const answer = error.code === "FST_ERR_BAD_URL" ? answerUnknown(plane, NO_METHODS, request, reply) : Promise.reject(error);
      answer.catch((fault: unknown) => sendError(plane, fault, request, reply));
    },
    clientErrorHandler: (error, socket) => refuseRaw(error, socket),
  });
  app.setErrorHandler((error, request, reply) => sendError(plane, error, request, reply));
  app.addHook("preClose", async () => handshakes.close());
  app.addHook("onClose", async () => receiving.close());
  app.addHook("onRequest", (request, reply, next) => {
    addCommonHeaders(request, reply);
    // HSTS is not sent with the server's own CA: browsers would then offer no way to accept a changed certificate.
    if (options.tls !== undefined && options.tls.authority === undefined) reply.header("strict-transport-security", HSTS);
    const refusal = refusalOf(plane, request.raw);
    if (refusal !== undefined) return next(refusal as never);
    // A request without a body cannot have a wrong content type.
    if (!hasBody(request.raw)) delete request.raw.headers["content-type"];
    else
      receiving.watch(request.raw, reply.raw, (request.routeOptions.config as { streams?: boolean }).streams === true ? "stream" : "json");
    next();
  });
  app.addHook("onResponse", (request, reply, next) => {
    receiving.forget(request.raw);
    const route = (request.routeOptions.config as { route?: string }).route ?? (shown.has(request) ? "page" : "unknown");
    options.metrics.http_requests.inc({ route, status: reply.statusCode });
    options.metrics.http_duration.observe({ route }, reply.elapsedTime / 1_000);
    next();
  });
  const methods = new Methods();
  const pages: Http["pages"] = { answer: undefined };
  const shown = new WeakSet<FastifyRequest>();
  app.setNotFoundHandler((request, reply) => {
    const page = askPage(pages.answer, request);
    if (page === undefined) return answerUnknown(plane, methods, request, reply);
    shown.add(request);
    return reply.code(page.status).headers(page.headers).send(page.body);
  });
  parseJsonBodies(app);
  let streams: FastifyInstance | undefined;
  await app.register(async (instance) => {
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
    streams = instance;
  });
  if (streams === undefined) throw new Error("fastify did not register the stream routes");
  return { app, json: app, streams, server: app.server, idempotency: new Idempotency(plane.db, plane.clock), methods, pages };
}

const addCommonHeaders = (request: FastifyRequest, reply: FastifyReply): void =>
  void reply.headers({ "x-request-id": request.id, "cache-control": "no-store", "x-content-type-options": "nosniff" });

/** Returns the page for a GET or HEAD request that matches no route. `mayConnect` was checked before. */
function askPage(answer: Pages | undefined, { method, raw, headers }: FastifyRequest): PageAnswer | undefined {
  if (method !== "GET" && method !== "HEAD") return undefined;
  const path = (raw.url ?? "").split("?", 1)[0] ?? "";
  return answer?.({
    path,
    accept: headers.accept,
    accept_encoding: headers["accept-encoding"]?.toString(),
    if_none_match: headers["if-none-match"],
  });
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

function requestId(request: IncomingMessage): string | undefined {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && REQUEST_ID.test(given) ? given : undefined;
}

function parseJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: BODY_BYTES_MAX }, (request, body, done) => {
    try {
      const encoding = request.headers["content-encoding"];
      if (encoding !== undefined && encoding !== "identity") throw httpError(415, "bodies must not be compressed");
      if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? ""))
        throw httpError(415, "the body must be application/json");
      done(null, parseBody(body as Buffer));
    } catch (error) {
      done(error as Error);
    }
  });
}

/**
 * Throws 405 or 404 for a request that matches no route. Below /api/ it authenticates first, so that only callers with a token can see
 * which paths exist.
 */
async function answerUnknown(plane: KernelPlane, methods: Methods, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const path = (request.raw.url ?? "").split("?", 1)[0] ?? "";
  if (path.startsWith("/api/admin/")) authenticateAdmin(plane, credentialsOf(request, plane.proxies));
  else if (path.startsWith("/api/")) {
    const caller = await authenticatePortal(plane, credentialsOf(request, plane.proxies));
    reply.header("x-service-org-id", caller.org_id);
  }
  const allowed = methods.of(path);
  if (allowed.length > 0) throw httpError(405, `this path does not allow ${request.method}`, { allow: allowed.join(", ") });
  throw notFound("path", path);
}

/** The body did not arrive in time: sends the error and closes the connection, because reading the rest is useless. */
function refuseLate(response: ServerResponse): void {
  const body = JSON.stringify(httpError(408, "the request took too long to arrive").body);
  response
    .writeHead(408, { "content-type": "application/json; charset=utf-8", "content-length": Buffer.byteLength(body), connection: "close" })
    .end(body);
}

/** Sends any error as the error envelope. Internal details are only logged. */
function sendError(plane: KernelPlane, error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const fault = toFault(plane, error, request.routeOptions.bodyLimit);
  if (fault.status >= 500)
    plane.log.error({ err: error, request_id: request.id, status: fault.status, detail: fault.detail }, "request failed");
  if (reply.raw.headersSent) {
    reply.raw.destroy();
    return;
  }
  // With a 413, Fastify sends `connection: close`, and the client could then not read the error. Instead, ReceivingBodies reads the rest of
  // the body for a limited time.
  if (fault.status === 413) reply.removeHeader("connection");
  void reply
    .code(fault.status)
    .headers(fault.headers)
    .header("content-type", "application/json; charset=utf-8")
    .send(JSON.stringify(fault.body));
}

/** Framework errors with a specific message. Any other 4xx becomes bad_request. */
const FRAMEWORK_FAULTS: Record<number, () => Fault> = {
  414: () => httpError(414, "the URL is too long"),
  415: () => httpError(415, "the body must be application/json"),
};

export function toFault(plane: Pick<KernelPlane, "db_errors">, error: unknown, body_bytes_max: number = BODY_BYTES_MAX): Fault {
  if (error instanceof Fault) return error;
  if (plane.db_errors.isConnectionLost(error)) return httpError(503, "the database does not answer; try again", { "retry-after": "2" });
  if (plane.db_errors.isDiskFull(error)) return diskFull("nothing was written");
  if (plane.db_errors.isTimeout(error))
    return httpError(
      503,
      "the database took too long for this request; request less at a time (a shorter time range, fewer objects) or try again",
      {
        "retry-after": "5",
      },
    );
  const status = (error as FastifyError | undefined)?.statusCode;
  if (status === 413) return httpError(413, `the body is larger than ${body_bytes_max} bytes`);
  if (status !== undefined && status >= 400 && status < 500)
    return FRAMEWORK_FAULTS[status]?.() ?? new Fault("bad_request", "the request is malformed");
  return new Fault("internal_server_error", "internal error; the server's log shows details under the request id");
}

/**
 * Responds to a connection whose data is not a valid HTTP request. There is no request object, so the response is written to the socket.
 */
function refuseRaw(error: NodeJS.ErrnoException, socket: Socket): void {
  // Ignore further invalid data of a client to which a response was already written.
  if (socket.writableEnded && !socket.destroyed) return;
  // A client that did not complete the TLS handshake cannot receive a response.
  const can_hear = socket.writable && !(socket instanceof TLSSocket && socket.getProtocol() === null);
  if (error.code === "ECONNRESET" || !can_hear || /^ERR_(SSL|TLS)_/.test(error.code ?? "")) {
    socket.destroy();
    return;
  }
  // Closes the socket even if the client does not close its end of the connection.
  socket.once("finish", () => socket.destroy());
  const [status, text, code, message] =
    error.code === "HPE_HEADER_OVERFLOW"
      ? [431, "Request Header Fields Too Large", "http_error", "the headers are too large"]
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? [408, "Request Timeout", "http_error", "the request took too long to arrive"]
        : [400, "Bad Request", "bad_request", "the request is not valid HTTP"];
  const body = JSON.stringify({ error: { code, message } });
  socket.end(
    `HTTP/1.1 ${status} ${text}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

/** Time limit for running requests when the server stops. */
const STOP_TIMEOUT_MS = 10_000;

/**
 * Announces the shutdown, and continues to serve until load balancers have noticed: `/readyz` returns 503, and each response closes its
 * connection.
 */
export async function beginShutdown(
  http: Http,
  { clock, stopping, drain_seconds }: { clock: Clock; stopping: AbortController; drain_seconds: number },
): Promise<void> {
  http.server.prependListener("request", (_request, response) => {
    response.shouldKeepAlive = false;
  });
  stopping.abort();
  if (drain_seconds > 0) await clock.sleep(drain_seconds * 1_000);
}

/** Stops listening, waits for running requests, and closes the remaining connections after STOP_TIMEOUT_MS. */
export async function stopHttp(http: Http, clock: Clock): Promise<void> {
  http.server.closeIdleConnections();
  const cut = clock.setTimer(STOP_TIMEOUT_MS, () => http.server.closeAllConnections());
  await http.app.close();
  cut.cancel();
}
