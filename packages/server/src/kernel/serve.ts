import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { accessOf, type Role, SECRET_PREFIXES } from "@roamfleet/protocol";
import type { AnswerOf, BodyOf, DryRunOf, ParamsOf, QueryOf, Route, RouteSpec } from "@roamfleet/protocol/routes";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type AuditNote, isAudited, RequestAudit } from "./audit.ts";
import { authenticateAdmin, authenticatePortal, authenticateRobot, type Credentials, requireCsrfProof } from "./authenticate.ts";
import { authorize } from "./authorize.ts";
import { bodyBytesMax } from "./body.ts";
import { type Caller, requireRole, type RobotCaller } from "./caller.ts";
import { channelOf, type Networks, type Site, siteOf } from "./networks.ts";
import type { Db } from "./db.ts";
import { badRequest, forbidden, notFound } from "./fault.ts";
import { contentHash, type Idempotency, readIdempotencyKey, type StoredAnswer } from "./idempotency.ts";
import type { KernelPlane } from "./kernel-plane.ts";
import { allowBody } from "./receiving.ts";
import { watchRobotTransfer, watchTransfer } from "./serve-transfer.ts";
import { validator } from "./validate.ts";

/** The part of the HTTP server that routes need; http.ts creates it. */
interface RouteHost {
  /** Routes with JSON bodies. */
  json: FastifyInstance;
  /** Routes that read their body as a stream. */
  streams: FastifyInstance;
  idempotency: Idempotency;
  /** The methods of each path, to distinguish 405 from 404. */
  methods: { add(method: string, path: string): void };
}

/** The caller's type, by the route's access: Caller for a role, RobotCaller for robots, undefined for public routes and admin routes. */
type CallerFor<A> = A extends Role ? Caller : A extends "robot" ? RobotCaller : undefined;

export interface Call<R extends RouteSpec> {
  params: ParamsOf<R>;
  query: QueryOf<R>;
  body: BodyOf<R>;
  caller: CallerFor<R["access"]>;
  /**
   * The request's transaction, or the database if the request has none. The transaction also writes the row of the Idempotency-Key, so use
   * `db` for every write that must happen once.
   */
  db: Db;
  headers: Record<string, string | string[] | undefined>;
  ip: string;
  /** Returns scheme and origin of this server, as the browser that sent the request sees them. */
  site: () => Site;
  /** The raw body of a route with a content type other than JSON. Call `allowBody` before reading it. */
  stream: Readable;
  /** Sends "100 Continue" to a client that waits for it. Before that, the request can be refused without transferring the body. */
  allowBody: () => void;
  /** Additions to the request's audit entry. */
  audit: AuditNote;
}

/** A response with a status or headers beside its body. */
export class Answer<B> {
  readonly status: number;
  readonly body: B | Readable | string;
  readonly headers: Record<string, string>;
  constructor(status: number, body: B | Readable | string, headers: Record<string, string> = {}) {
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

export const created = <B extends { data: { id: string } }>(path: string, body: B): Answer<B> =>
  new Answer(201, body, { location: `${path}/${body.data.id}` });

type Handler<P, R extends RouteSpec> = (plane: P, call: Call<R>) => Promise<AnswerOf<R> | Answer<AnswerOf<R> | DryRunOf<R>>>;

/** Registers a route of the protocol: authenticates, validates, runs the handler (once per Idempotency-Key) and sends the response. */
export function serve<P extends KernelPlane, R extends Route>(http: RouteHost, plane: P, route: R, handler: Handler<P, R>): void {
  const check = validator(route);
  const state = new WeakMap<FastifyRequest, Caller | RobotCaller | undefined>();
  const audits = isAudited(route);
  const row = accessOf(route.name);
  const default_status = Number(Object.keys(route.responses)[0]);

  const onRequest = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const caller = await authenticate(plane, route, request);
    if (caller !== undefined) {
      state.set(request, caller);
      if ("token_id" in caller) {
        reply.header("x-service-org-id", caller.org_id);
        await auditRefusal(plane, audits ? new RequestAudit(plane, route, request, caller) : undefined, async () => {
          requireRight(route, caller, credentialsOf(request, plane.proxies));
        });
      }
    }
    if (route.consumes === undefined) allowBody(request.raw, reply.raw);
  };

  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const audit = audits ? new RequestAudit(plane, route, request, state.get(request)) : undefined;
    if (audit === undefined) return await answer(request, reply, audit);
    return await auditRefusal(plane, audit, () => answer(request, reply, audit));
  };

  const answer = async (request: FastifyRequest, reply: FastifyReply, audit: RequestAudit | undefined): Promise<FastifyReply> => {
    const caller = state.get(request) as CallerFor<R["access"]>;
    refuseNul(route, request.params as Record<string, string>);
    // Second line of defense: row-level security hides the rows of other orgs from this handle.
    const db = caller !== undefined && "org_id" in caller ? plane.db.forOrg(caller.org_id) : plane.db;
    const call: Call<R> = {
      params: request.params as ParamsOf<R>,
      query: check.query(request.query) as QueryOf<R>,
      body: (route.consumes === undefined ? check.body(request.body) : undefined) as BodyOf<R>,
      caller,
      db,
      headers: request.headers,
      ip: request.ip,
      site: () => siteOf(request.raw, plane.proxies),
      stream: (route.consumes === undefined ? undefined : (request.body ?? request.raw)) as Readable,
      allowBody: () => allowBody(request.raw, reply.raw),
      audit: audit?.note ?? {},
    };
    const dry = route.dry_run !== undefined && asksDryRun(call.body);
    const run = async (db: Db): Promise<AnswerOf<R> | Answer<AnswerOf<R> | DryRunOf<R>>> => {
      const result = await watched(plane, route, call, request, reply, () => handler(plane, { ...call, db }));
      await audit?.done(db, result instanceof Answer ? result.status : default_status, result instanceof Answer ? result.body : result);
      return result;
    };
    // Authorizes before a replay, too. Otherwise the Idempotency-Key of another caller would reveal that caller's response.
    if (caller !== undefined && "token_id" in caller) await authorize(plane.findPlaces, db, caller, row, call);
    const key = route.idempotency && readIdempotencyKey(request.headers["idempotency-key"], route.idempotency === "required");
    if (dry) return send(reply, default_status, await handler(plane, call));
    if (key === undefined) {
      // Writes the change and its audit entry in one transaction. Uploads and public routes manage their own transactions.
      const in_transaction = route.method !== "GET" && route.consumes === undefined && route.access !== "public";
      return send(reply, default_status, await (in_transaction ? db.transaction(run) : run(db)));
    }
    return await answerOnce(http, route, { caller, key, body_hash: bodyHash(plane, route, call) }, reply, async (tx) => {
      const result = await run(tx);
      // Cookies are sent with the first response only. Replays do not contain them.
      if (result instanceof Answer) reply.headers(result.headers);
      return storable(route, default_status, result);
    });
  };
  mount(http, route, onRequest, handle);
}

/** Runs the handler of a request. Aborts its upload or download when its caller loses access. */
async function watched<T>(
  plane: KernelPlane,
  route: Route,
  call: { caller: unknown; params: unknown; query: unknown },
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<T>,
): Promise<T> {
  if (route.consumes !== undefined) watchCaller(plane, route, call, request, reply);
  const result = await work();
  if (route.consumes === undefined && result instanceof Answer && result.body instanceof Readable)
    watchCaller(plane, route, call, request, reply);
  return result;
}

/** Aborts a transfer when its caller loses access. Event streams are excluded, because they check their readers' access themselves. */
function watchCaller(
  plane: KernelPlane,
  route: Route,
  call: { caller: unknown; params: unknown; query: unknown },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const caller = call.caller as Caller | RobotCaller | undefined;
  if (caller === undefined || route.name === "streamEvents") return;
  if (!("token_id" in caller)) return watchRobotTransfer(plane, caller, request, reply);
  const { org_id } = caller;
  const asked = { params: call.params, query: call.query, body: undefined };
  const check = (now: Caller): Promise<void> => authorize(plane.findPlaces, plane.db.forOrg(org_id), now, accessOf(route.name), asked);
  watchTransfer(plane, { credentials: credentialsOf(request, plane.proxies), org_id, check }, request, reply);
}

function refuseNul({ tag }: Route, params: Record<string, string>): void {
  for (const value of Object.values(params)) if (value.includes("\0")) throw notFound(tag, value);
}

function bodyHash({ secrets }: KernelPlane, route: Route, { params, body }: { params: unknown; body: unknown }): Buffer {
  const content = contentHash([params, route.sameBody === undefined ? body : route.sameBody(body as Record<string, unknown>)]);
  return route.secret_body === true ? secrets.digest(content) : content;
}

/** Returns a download of lines of JSON. Lines are read from `lines` only as fast as the client reads the response. */
export const ndjson = (lines: AsyncIterable<string>, filename: string): Answer<never> =>
  new Answer<never>(200, Readable.from(lines, { highWaterMark: 1 }), {
    "content-type": "application/x-ndjson",
    "content-disposition": `attachment; filename="${filename}"`,
  });

/** Escapes the control characters and line separators that JSON leaves as they are but some readers treat as line ends. */
export const oneLine = (json: string): string =>
  json.replace(/[\u007f-\u009f\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

type Step<T> = (request: FastifyRequest, reply: FastifyReply) => Promise<T>;

function mount(http: RouteHost, route: Route, onRequest: Step<void>, handler: Step<FastifyReply>): void {
  const instance: FastifyInstance = route.consumes === undefined ? http.json : http.streams;
  instance.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ":$1"),
    onRequest,
    handler,
    config: { route: route.name, streams: route.consumes !== undefined },
    bodyLimit: bodyBytesMax(route.body),
  });
  http.methods.add(route.method, route.path);
}

/** Runs the work unless its key was used before. In that case sends the stored response. */
async function answerOnce(
  { idempotency }: RouteHost,
  route: Route,
  { key, caller, body_hash }: { key: string; caller: Caller | RobotCaller | undefined; body_hash: Buffer },
  reply: FastifyReply,
  work: Parameters<Idempotency["once"]>[1],
): Promise<FastifyReply> {
  const { answer, replayed } = await idempotency.once(
    {
      org_id: caller?.org_id ?? "",
      method: route.method,
      route: route.path,
      key,
      body_hash,
      forever: route.idempotency === "required",
    },
    work,
  );
  if (replayed) reply.header("idempotency-replayed", "true");
  if (answer.location !== undefined) reply.header("location", answer.location);
  return reply.code(answer.status).header("content-type", JSON_TYPE).send(answer.body);
}

/** Runs the work. If it fails, writes the audit entry before the error is sent. */
async function auditRefusal<T>({ log }: KernelPlane, audit: RequestAudit | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await audit
      ?.refused(error)
      .catch((unwritten: unknown) => log.error({ err: unwritten }, "could not write a refused request to the audit log"));
    throw error;
  }
}

const JSON_TYPE = "application/json; charset=utf-8";

function send(reply: FastifyReply, default_status: number, answer: unknown): FastifyReply {
  if (!(answer instanceof Answer)) return reply.code(default_status).header("content-type", JSON_TYPE).send(JSON.stringify(answer));
  reply.code(answer.status).headers(answer.headers);
  if (answer.body instanceof Readable && reply.request.method === "HEAD") {
    // A HEAD request needs only the headers. Fastify would otherwise read the whole body, possibly gigabytes, and discard it.
    answer.body.destroy();
  }
  if (answer.body instanceof Readable || typeof answer.body === "string") return reply.send(answer.body);
  return reply.header("content-type", JSON_TYPE).send(JSON.stringify(answer.body));
}

/** Returns the response, and the copy without secrets that is stored for replays. */
function storable(route: Route, default_status: number, result: unknown): { answer: StoredAnswer; stored_body: string } {
  const answer = result instanceof Answer ? result : new Answer(default_status, result);
  const body = JSON.stringify(answer.body);
  const secret = new Set(route.secret_fields ?? []);
  const stored_body =
    secret.size === 0 ? body : JSON.stringify(answer.body, (key, value: unknown) => (secret.has(key) && isSecret(value) ? null : value));
  return { answer: { status: answer.status, body, location: answer.headers.location }, stored_body };
}

const isSecret = (value: unknown): boolean =>
  typeof value === "string" && Object.values(SECRET_PREFIXES).some((prefix) => value.startsWith(prefix));

export const credentialsOf = (request: FastifyRequest, proxies: Networks): Credentials => ({
  headers: request.headers,
  ip: request.ip,
  peer: request.socket.remoteAddress,
  site: () => siteOf(request.raw, proxies),
});

/** Checks CSRF protection, the kind of credential (token or session) and the role. Runs before the rest of the request is read. */
function requireRight({ access, by, method }: Route, caller: Caller, credentials: Credentials): void {
  requireCsrfProof(credentials, caller, method === "GET" ? "reads" : "changes");
  // A session is created with a token. Routes about the current session, such as signing out, work only with its cookie.
  if (by === "token" && caller.session !== undefined) throw forbidden("this requires a token: a session cannot create sessions");
  if (by === "session" && caller.session === undefined) throw badRequest("this requires a session cookie instead of a token");
  requireRole(caller, access as Role);
}

async function authenticate(plane: KernelPlane, route: Route, request: FastifyRequest): Promise<Caller | RobotCaller | undefined> {
  const credentials = credentialsOf(request, plane.proxies);
  switch (route.access) {
    case "public":
      return undefined;
    case "service_admin":
      authenticateAdmin(plane, credentials);
      return undefined;
    case "robot":
      return authenticateRobot(plane, credentials, {
        method: request.method,
        path: request.raw.url ?? "",
        bound: channelOf(request.raw, plane.proxies),
      });
    default:
      return authenticatePortal(plane, credentials);
  }
}

/** Returns whether a body, or the policy in it, asks for a dry run. */
export function asksDryRun(body: unknown): boolean {
  const { dry_run, rollout } = (body ?? {}) as { dry_run?: boolean; rollout?: { dry_run?: boolean } };
  return dry_run === true || rollout?.dry_run === true;
}

/** A request for a path that is not an API route. */
export interface AskedPage {
  /** The raw path, not decoded, without the query. */
  path: string;
  accept: string | undefined;
  accept_encoding: string | undefined;
  if_none_match: string | undefined;
}

export interface PageAnswer {
  status: number;
  headers: Record<string, string>;
  body: Buffer | string;
}

/** Answers a browser's page request. Undefined results in the usual 404. */
export type Pages = (asked: AskedPage) => PageAnswer | undefined;

/** The part of the HTTP server that serves pages; http.ts creates it. */
interface PageHost {
  pages: { answer: Pages | undefined };
}

/**
 * Serves `pages` for GET and HEAD requests to paths without a route. A catch-all route is not used, because it would replace the 404 and 405
 * responses of all paths.
 */
export function servePages(http: PageHost, pages: Pages): void {
  http.pages.answer = pages;
}

interface StaticFile {
  path: string;
  body: string;
  content_type: string;
  headers?: Record<string, string>;
}

/** Serves one static file without authentication. It is not an API route and not in the OpenAPI document. */
export function serveStatic(http: RouteHost, { path, body, content_type, headers = {} }: StaticFile): void {
  http.json.get(path, { config: { route: "static" } }, (_request, reply) => reply.headers(headers).type(content_type).send(body));
  http.methods.add("GET", path);
}

/**
 * Serves files below `prefix` without authentication. They are not API routes and not in the OpenAPI document. `answer` gets the decoded
 * path, which may contain anything, and throws a Fault for an unknown path.
 */
export function serveFiles(
  http: RouteHost,
  prefix: string,
  answer: (path: string, headers: IncomingHttpHeaders) => Promise<Answer<never>>,
): void {
  http.json.get(`${prefix}/*`, { config: { route: "static" } }, async (request, reply) =>
    send(reply, 200, await answer(`${prefix}/${(request.params as { "*": string })["*"]}`, request.headers)),
  );
  http.methods.add("GET", `${prefix}/{file*}`);
}
