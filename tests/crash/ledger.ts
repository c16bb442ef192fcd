import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

const ANSWER_MS = 30_000;
const GIVE_UP_MS = 60_000;
const AGAIN_MS = 40;
/** Maximum delay between retries. It limits the load on the machine, because hundreds of clients retry while the server starts. */
const AGAIN_MS_MAX = 500;
const REPLAYS_AT_ONCE = 16;
/** Fields that may change after the response. */
const MUTABLE = new Set([
  "status",
  "reason",
  "counts",
  "updated_at",
  "started_at",
  "finished_at",
  "expires_at",
  "cancel_requested_at",
  "uses",
  "key",
  "updated_by",
  "artifact_uploaded_at",
  "use_count",
  "robot_count",
  "fleet_count",
  "online_count",
  "name",
  "artifact_state",
  "wave",
  "paused_at",
]);

export interface Answer {
  status: number;
  text: string;
  headers: Headers;
}

interface Acknowledged {
  path: string;
  body: unknown;
  key: string;
  status: number;
  text: string;
  deleted: boolean;
}

export type Data = Record<string, unknown> & { id: string };

/** A client that records every 2xx response and retries across server crashes. Afterwards it verifies that all acknowledged data exists. */
export class Ledger {
  readonly acknowledged: Acknowledged[] = [];
  /** Number of requests without a response. */
  cut_off = 0;
  /** Responses that asked for a retry. */
  readonly refusals: { status: number; retry_after: string | null }[] = [];
  readonly #url: () => string;
  readonly #token: string | undefined;
  /** Returns how often the server has crashed; each crash extends the deadline of a request. Throws if a crash was not planned. */
  readonly crashes: () => number;

  constructor(url: () => string, token?: string, crashes: () => number = () => 0) {
    this.#url = url;
    this.#token = token;
    this.crashes = crashes;
  }

  /** Sends a POST with an Idempotency-Key until it gets a response. Records it and returns its data. */
  async post(path: string, body: unknown = {}, key: string = randomUUID()): Promise<Data> {
    const answer = await this.send("POST", path, body, key);
    if (answer.status >= 300) throw new Error(`POST ${path} failed with ${answer.status} ${answer.text}`);
    this.acknowledged.push({ path, body, key, status: answer.status, text: answer.text, deleted: false });
    return (JSON.parse(answer.text) as { data: Data }).data;
  }

  async get(path: string): Promise<Data> {
    const answer = await this.send("GET", path);
    assert.equal(answer.status, 200, `GET ${path}: ${answer.text}`);
    return (JSON.parse(answer.text) as { data: Data }).data;
  }

  async patch(path: string, body: unknown): Promise<Data> {
    const answer = await this.send("PATCH", path, body);
    assert.equal(answer.status, 200, `PATCH ${path}: ${answer.text}`);
    return (JSON.parse(answer.text) as { data: Data }).data;
  }

  /** Sends a DELETE; accepts 404, because an earlier attempt without a response may have succeeded. */
  async remove(path: string): Promise<void> {
    const answer = await this.send("DELETE", path);
    assert.ok([200, 204, 404].includes(answer.status), `DELETE ${path}: ${answer.status} ${answer.text}`);
    this.forget(path.split("/").at(-1) ?? "");
  }

  /** Stops expecting an object that the server deleted together with another object. */
  forget(id: string): void {
    for (const one of this.acknowledged) if (dataOf(one)?.id === id) one.deleted = true;
  }

  /** Sends a request until the response is not 503 or 429. Any other 5xx is an error. */
  async send(method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
    let deadline = performance.now() + GIVE_UP_MS;
    let before = this.crashes();
    let wait_ms = AGAIN_MS;
    for (;;) {
      const answer = await this.once(method, path, body, key).catch((error: unknown) => error);
      if (isAnswer(answer)) {
        if (answer.status < 500 && answer.status !== 429) return answer;
        if (answer.status !== 503 && answer.status !== 429)
          throw new Error(`${method} ${path} was answered ${answer.status} ${answer.text}`);
        this.refusals.push({ status: answer.status, retry_after: answer.headers.get("retry-after") });
      } else this.cut_off += 1;
      const crashes = this.crashes();
      if (crashes !== before) deadline = performance.now() + GIVE_UP_MS;
      before = crashes;
      if (performance.now() > deadline) throw new Error(`${method} ${path} got no response for ${GIVE_UP_MS} ms`, { cause: answer });
      await new Promise((resolve) => setTimeout(resolve, wait_ms));
      wait_ms = Math.min(AGAIN_MS_MAX, wait_ms * 1.5);
    }
  }

  /** Number of retried requests. */
  get unanswered(): number {
    return this.cut_off + this.refusals.length;
  }

  async once(method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
    const bytes = body instanceof Uint8Array;
    const response = await fetch(`${this.#url()}${path}`, {
      method,
      signal: AbortSignal.timeout(ANSWER_MS),
      headers: {
        ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
        ...(key === undefined ? {} : { "idempotency-key": key }),
        ...(body === undefined ? {} : { "content-type": bytes ? "application/octet-stream" : "application/json" }),
      },
      ...(body === undefined ? {} : { body: bytes ? Uint8Array.from(body) : JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text(), headers: response.headers };
  }

  /** Repeats acknowledged requests: the response must have the same bytes and be marked as a replay. Returns their number. */
  async checkReplays(some: readonly Acknowledged[] = this.acknowledged): Promise<number> {
    let next = 0;
    const work = async (): Promise<void> => {
      for (let one = some[next++]; one !== undefined; one = some[next++]) await this.#checkReplay(one);
    };
    await Promise.all(Array.from({ length: REPLAYS_AT_ONCE }, work));
    return some.length;
  }

  async #checkReplay({ path, body, key, status, text }: Acknowledged): Promise<void> {
    // A secret is returned only in the first response. The replayed response is the same with null in place of the secret.
    const expected = text.replace(/"(rf_[a-z]+_[^"]+)"/g, "null");
    const again = await this.send("POST", path, body, key);
    assert.deepEqual([again.status, again.text], [status, expected], `the replay of POST ${path}`);
    assert.equal(again.headers.get("idempotency-replayed"), "true", `POST ${path} was executed again`);
  }

  /**
   * Reads all acknowledged objects that were not deleted. Each must equal the response that acknowledged it. Returns the number of objects.
   */
  async checkResources(): Promise<number> {
    let checked = 0;
    for (const one of this.acknowledged) {
      const data = dataOf(one);
      if (one.deleted || data === undefined || one.status !== 201 || one.path.startsWith("/api/admin/")) continue;
      // Rolling back or retrying a deployment creates another deployment.
      const place = `${one.path.replace(/\/[^/]+\/(rollback|retry)$/, "")}/${data.id}`;
      const now = one.path === "/api/configs" || one.path === "/api/enrollment-keys" ? undefined : await this.get(place);
      if (now === undefined) continue;
      for (const [name, value] of Object.entries(data)) if (!MUTABLE.has(name)) assert.deepEqual(now[name], value, `${name} of ${place}`);
      checked += 1;
    }
    return checked;
  }

  /** Returns the ids that must exist as rows, by the path of their POST. */
  ids(path: string): string[] {
    return this.acknowledged.flatMap((one) => (one.path === path && !one.deleted ? [dataOf(one)?.id ?? ""] : []));
  }
}

const isAnswer = (value: unknown): value is Answer => typeof value === "object" && value !== null && "text" in value && "headers" in value;

function dataOf({ text }: Acknowledged): Data | undefined {
  return (JSON.parse(text) as { data?: Data }).data;
}
