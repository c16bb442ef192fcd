import { hash } from "node:crypto";
import { type Clock, within } from "@roamfleet/clock";
import { int, nullable, row, bytea, sql, text, timestamptz } from "./sql.ts";
import type { Db, SystemDb } from "./db.ts";
import { badRequest, conflict, httpError } from "./fault.ts";

export const IDEMPOTENCY_KEY_CHARACTERS_MAX = 255;
const HOUR_MS = 3_600_000;
const KEY_LIFE_MS = 24 * HOUR_MS;
/** How long a repeated request waits for the first request with the same key. */
const WAIT_MS = 30_000;

export interface StoredAnswer {
  status: number;
  /** The exact bytes of the body. */
  body: string;
  location: string | undefined;
}

export interface IdempotentRequest {
  org_id: string;
  method: string;
  route: string;
  key: string;
  /** Hash of the parsed body: bodies with equal content have equal hashes. */
  body_hash: Buffer;
  /** Keeps the key as long as the object that the request created, instead of one day. */
  forever: boolean;
}

const storedRow = row({
  body_hash: bytea,
  status: nullable(int),
  response: nullable(text),
  location: nullable(text),
  expires_at: nullable(timestamptz),
});

/** Returns a hash of a JSON value that does not depend on the order of fields. */
export const contentHash = (value: unknown): Buffer => hash("sha256", canonical(value), "buffer");

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${fields
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`)
    .join(",")}}`;
}

export function readIdempotencyKey(header: string | string[] | undefined, required: boolean): string | undefined {
  if (header === undefined) {
    if (required) throw badRequest("the header Idempotency-Key is required");
    return undefined;
  }
  if (Array.isArray(header) || header.length === 0 || header.length > IDEMPOTENCY_KEY_CHARACTERS_MAX) {
    throw badRequest(`the header Idempotency-Key must have 1 to ${IDEMPOTENCY_KEY_CHARACTERS_MAX} characters`);
  }
  return header;
}

/**
 * Runs `work` once per key. The transaction of the work also writes the key's row with the response, so a crash cannot leave one without
 * the other. If `work` throws, the transaction is rolled back: only successes are replayed.
 */
export class Idempotency {
  readonly #db: SystemDb;
  readonly #clock: Clock;
  /** Running requests on this node. A repeated request waits here rather than on a database lock. */
  readonly #running = new Map<string, Promise<unknown>>();

  constructor(db: SystemDb, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  async once(
    request: IdempotentRequest,
    work: (tx: Db) => Promise<{ answer: StoredAnswer; stored_body: string }>,
  ): Promise<{ answer: StoredAnswer; replayed: boolean }> {
    const scope = JSON.stringify([request.org_id, request.method, request.route, request.key]);
    for (let before = this.#running.get(scope); before !== undefined; before = this.#running.get(scope)) await this.#bounded(before);
    const db = request.org_id === "" ? this.#db : this.#db.forOrg(request.org_id);
    const run = db.transaction((tx) => this.#inTransaction(tx, request, work));
    this.#running.set(scope, run);
    try {
      return await run;
    } finally {
      if (this.#running.get(scope) === run) this.#running.delete(scope);
    }
  }

  async #bounded(before: Promise<unknown>): Promise<void> {
    const ended = before.then(
      () => true,
      () => true,
    );
    if ((await within(this.#clock, WAIT_MS, ended)) === true) return;
    throw httpError(503, "the first request with this Idempotency-Key is still running", { "retry-after": "5" });
  }

  async #inTransaction(
    tx: Db,
    request: IdempotentRequest,
    work: (tx: Db) => Promise<{ answer: StoredAnswer; stored_body: string }>,
  ): Promise<{ answer: StoredAnswer; replayed: boolean }> {
    const { org_id, method, route, key, body_hash } = request;
    const now = this.#clock.now();
    const expires_at = request.forever ? null : new Date(now.getTime() + KEY_LIFE_MS);
    // An expired row is overwritten. If another node's transaction has inserted the row, this statement waits for it.
    const mine = await tx.run(sql`
      insert into idempotency (org_id, method, route, key, body_hash, expires_at, created_at)
      values (${org_id}, ${method}, ${route}, ${key}, ${body_hash}, ${expires_at}, ${now})
      on conflict (org_id, method, route, key) do update
        set body_hash = excluded.body_hash, expires_at = excluded.expires_at, created_at = excluded.created_at, status = null, response = null
        where idempotency.expires_at <= ${now}`);
    if (mine === 0) return { answer: await this.#replay(tx, request), replayed: true };
    const { answer, stored_body } = await work(tx);
    await tx.atCommit(sql`
      update idempotency set status = ${answer.status}, response = ${stored_body}, location = ${answer.location ?? null},
        deployment_id = ${request.forever ? createdId(answer.body) : null}
      where org_id = ${org_id} and method = ${method} and route = ${route} and key = ${key}`);
    return { answer, replayed: false };
  }

  async #replay(tx: Db, { org_id, method, route, key, body_hash }: IdempotentRequest): Promise<StoredAnswer> {
    const stored = await tx.one(sql(storedRow)`
      select ${storedRow} from idempotency where org_id = ${org_id} and method = ${method} and route = ${route} and key = ${key}`);
    if (!stored.body_hash.equals(body_hash)) throw conflict("this Idempotency-Key was used with another body");
    if (stored.status === null || stored.response === null) throw new Error("the stored response of this Idempotency-Key is missing");
    return { status: stored.status, body: stored.response, location: stored.location ?? undefined };
  }
}

/** Returns the id of the created object. */
const createdId = (body: string): string | null => (JSON.parse(body) as { data?: { id?: string } }).data?.id ?? null;

/** Deletes up to `limit` expired keys, after skipping the first `offset`. */
export const deleteExpiredKeys = (db: Db, now: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    -- across orgs: a sweep by time
    delete from idempotency where ctid = any(array(
      select ctid from idempotency where expires_at is not null and expires_at <= ${now} order by expires_at, org_id, method, route, key limit ${limit} offset ${offset}
      for update skip locked))`);

/** Deletes the Idempotency-Key with which a deployment was created. The key is kept as long as the deployment. */
export const deleteKeysOfDeployment = (tx: Db, org_id: string, deployment_id: string): Promise<number> =>
  tx.run(sql`delete from idempotency where org_id = ${org_id} and deployment_id = ${deployment_id}`);
