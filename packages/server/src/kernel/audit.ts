import type { IncomingHttpHeaders } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { Clock, IdSource } from "@roamfleet/clock";
import { ID_PREFIXES, isId } from "@roamfleet/protocol";
import type { Actor, Route } from "@roamfleet/protocol/routes";
import { type Caller, robotActor, type RobotCaller } from "./caller.ts";
import type { Db, DbErrors } from "./db.ts";
import { Fault } from "./fault.ts";
import { madeBefore } from "./page.ts";
import { deleteIsolated, forEachOrg, type RetentionContext } from "./retention.ts";
import { json, row, sql, text } from "./sql.ts";

const PATH_CHARACTERS_MAX = 500;
const ID_LIKE = /^[\w.~-]{1,200}$/;
const USER_AGENT_CHARACTERS_MAX = 200;

/** An entry of the audit log: who did what, from where, and with what result. Entries are never updated. */
export interface AuditEntry {
  /** Id of the org; empty for an operation of the service's administrator that concerns the whole service. */
  org_id: string;
  actor: Actor;
  token_id: string | null;
  /** The route's operation id in the OpenAPI document, or `stream.opened` and `stream.closed`. */
  action: string;
  method: string;
  /** Path without the query, which may contain a token. */
  path: string;
  object_id: string | null;
  status: number | null;
  /** Code of the returned error. */
  error: string | null;
  ip: string;
  user_agent: string | null;
  request_id: string;
  data: Record<string, unknown>;
}

/** The fields of an HTTP request that its audit entry records. */
interface AuditedRequest {
  id: string;
  method: string;
  ip: string;
  headers: IncomingHttpHeaders;
  params: unknown;
  raw: { url?: string | undefined };
}

/** What a handler adds to the audit entry of its request. */
export interface AuditNote {
  /** Id of the org concerned, if the request's credentials do not determine it. */
  org_id?: string;
  actor?: Actor;
  object_id?: string;
  data?: Record<string, unknown>;
  /** Whether the request changed visible state. Only read for routes with `audit: "on_change_of_state"`. */
  changed?: boolean;
}

/** An object before and after a request. */
export interface Changed<T> {
  before: T;
  after: T;
}

/** Returns those of the fields that differ, each with its value before and after, for the data of an audit entry. */
export const changesBetween = <T extends object>(before: T, after: T, fields: readonly (keyof T & string)[]) => ({
  changes: Object.fromEntries(
    fields
      .filter((field) => !isDeepStrictEqual(before[field], after[field]))
      .map((field) => [field, { before: before[field], after: after[field] }]),
  ),
});

export const pathWithoutQuery = (url: string): string => (url.split("?", 1)[0] ?? "").slice(0, PATH_CHARACTERS_MAX);

export const userAgentOf = (headers: IncomingHttpHeaders): string | null =>
  headers["user-agent"]?.slice(0, USER_AGENT_CHARACTERS_MAX) ?? null;

/** Returns where a request came from, as recorded in its audit entry. */
const originOf = (request: AuditedRequest): Pick<AuditEntry, "method" | "path" | "ip" | "user_agent" | "request_id"> => ({
  method: request.method,
  path: pathWithoutQuery(request.raw.url ?? ""),
  ip: request.ip,
  user_agent: userAgentOf(request.headers),
  request_id: request.id,
});

/** Appends an entry. Call it in the transaction of the change, so that change and entry are stored atomically. */
export const appendAudit = (db: Db, { id, clock }: { id: IdSource; clock: Clock }, entry: AuditEntry): Promise<void> =>
  db.atCommit(sql`
    insert into audit_entry (org_id, id, at, actor, token_id, action, method, path, object_id, status, error, ip, user_agent, request_id, data)
    values (${entry.org_id}, ${id(ID_PREFIXES.audit)}, ${clock.now()}, ${json(entry.actor)}, ${entry.token_id}, ${entry.action}, ${entry.method},
      ${entry.path}, ${entry.object_id}, ${entry.status}, ${entry.error}, ${entry.ip}, ${entry.user_agent}, ${entry.request_id}, ${json(entry.data)})`);

/** Returns an id from the request's path if it looks like an id; undefined for anything else (a NUL, a kilobyte of text). */
const nameable = (id: string | undefined): string | undefined => (id !== undefined && ID_LIKE.test(id) ? id : undefined);

/**
 * Returns the id of the session if the caller used a session cookie. It is recorded beside the id of the token that the session represents.
 */
export const sessionOf = (caller: Caller | RobotCaller | undefined): { session_id?: string } =>
  caller !== undefined && "session" in caller && caller.session !== undefined ? { session_id: caller.session.id } : {};

const ADMIN: Actor = { type: "admin", id: null, name: null };

const isReading = ({ method }: Pick<Route, "method">): boolean => method === "GET";

/** Returns whether a route writes audit entries. Routes that only read write none, unless their field `audit` requests it. */
export const isAudited = (route: Pick<Route, "method" | "audit">): boolean => !isReading(route) || route.audit !== undefined;

/** Writes the audit entry of one request to an audited route. */
export class RequestAudit {
  /** Additions to the entry, which the handler sets. */
  readonly note: AuditNote = {};
  readonly #plane: { id: IdSource; clock: Clock; db: Db };
  readonly #route: Route;
  readonly #request: AuditedRequest;
  readonly #caller: Caller | RobotCaller | undefined;

  constructor(
    plane: { id: IdSource; clock: Clock; db: Db },
    route: Route,
    request: AuditedRequest,
    caller: Caller | RobotCaller | undefined,
  ) {
    this.#plane = plane;
    this.#route = route;
    this.#request = request;
    this.#caller = caller;
  }

  /** Writes the entry of a successful request. `db` is the request's transaction, if it has one. */
  async done(db: Db, status: number, answer: unknown): Promise<void> {
    if (this.#route.audit === "on_change_of_state" && this.note.changed !== true) return;
    const made = (answer as { data?: { id?: unknown } } | undefined)?.data?.id;
    await this.#append(db, status, null, typeof made === "string" ? made : null);
  }

  /** Writes the entry of a refused or failed request in a separate transaction, because the request's transaction was rolled back. */
  async refused(error: unknown): Promise<void> {
    // A failed request to read is only audited if it had already changed something.
    if (isReading(this.#route) && this.note.changed !== true) return;
    const fault = error instanceof Fault ? error : undefined;
    await this.#append(this.#plane.db, fault?.status ?? 500, fault?.code ?? "internal_server_error", null);
  }

  async #append(db: Db, status: number, error: string | null, made: string | null): Promise<void> {
    const params = this.#request.params as { id?: string } | undefined;
    const object_id = this.note.object_id ?? nameable(params?.id) ?? made;
    const org_id = this.note.org_id ?? this.#orgOf(made ?? params?.id);
    // A refused request to a public route belongs to no org, so there is no audit log for it.
    if (org_id === undefined) return;
    await appendAudit(db, this.#plane, {
      ...originOf(this.#request),
      org_id,
      actor: this.note.actor ?? this.#actor(),
      token_id: this.#caller !== undefined && "token_id" in this.#caller ? this.#caller.token_id : null,
      action: this.#route.name,
      object_id,
      status,
      error,
      data: { ...sessionOf(this.#caller), ...this.note.data },
    });
  }

  /** Returns the org in whose audit log the entry is written. An admin operation on an org is recorded in that org's log. */
  #orgOf(id: string | undefined): string | undefined {
    if (this.#caller !== undefined) return this.#caller.org_id;
    if (this.#route.access !== "service_admin") return undefined;
    return id !== undefined && isId("org", id) ? id : "";
  }

  #actor(): Actor {
    if (this.#caller === undefined) return ADMIN;
    return "actor" in this.#caller ? this.#caller.actor : robotActor(this.#caller.robot_id);
  }
}

const orgRow = row({ org_id: text });

/** Returns every org that has entries, including removed orgs and the service itself (''). One index lookup per org. */
const listOrgsWithEntries = async (db: Db): Promise<string[]> =>
  (
    await db.many(sql(orgRow)`
      with recursive found (org_id) as (
        (select min(org_id) from audit_entry)
        union all
        select (select min(a.org_id) from audit_entry a where a.org_id > f.org_id) from found f where f.org_id is not null)
      select org_id from found where org_id is not null`)
  ).map(({ org_id }) => org_id);

const deleteEntries = (db: Db, org_id: string, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from audit_entry where org_id = ${org_id} and ctid = any(array(
      select ctid from audit_entry where org_id = ${org_id} ${madeBefore(ID_PREFIXES.audit, before)} order by id limit ${limit} offset ${offset}
      for update skip locked))`);

/** Deletes the entries of all orgs from before the time `before`. */
export async function dropAuditEntries(
  context: Pick<RetentionContext, "db" | "log"> & { db_errors: DbErrors },
  before: Date,
): Promise<void> {
  await forEachOrg(context, "audit", await listOrgsWithEntries(context.db), async (org_id) => {
    const entries = await deleteIsolated(context.db_errors.isOutage, (limit, offset) =>
      deleteEntries(context.db, org_id, before, limit, offset),
    );
    if (entries > 0) context.log.info({ org_id, entries, before: before.toISOString() }, "deleted old audit entries");
  });
}
