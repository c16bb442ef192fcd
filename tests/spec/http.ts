import assert from "node:assert/strict";
import { until } from "@roamfleet/clock/testing";
import { answerText } from "../harness/answer-text.ts";
import type { Harness } from "../harness/index.ts";

export type Item = Record<string, unknown>;

/** A response with its parsed envelope. */
export class Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;

  constructor(status: number, headers: Headers, text: string) {
    this.status = status;
    this.headers = headers;
    this.text = text;
  }

  get body(): Record<string, unknown> {
    return JSON.parse(this.text) as Record<string, unknown>;
  }

  /** The items of a list response; fails for any other response. */
  get items(): Item[] {
    const { items } = this.body;
    assert.ok(this.status === 200 && Array.isArray(items), `expected a list, not ${this.status} ${this.text.slice(0, 300)}`);
    return items as Item[];
  }

  /** The object of a single-object response; fails for any other response. */
  get data(): Item {
    const { data } = this.body;
    assert.ok(
      this.status < 300 && typeof data === "object" && data !== null,
      `expected an object, not ${this.status} ${this.text.slice(0, 300)}`,
    );
    return data as Item;
  }

  /** `status code: message` of an error response; fails if the envelope has any other form. */
  get refusal(): string {
    const { error, ...rest } = this.body;
    assert.deepEqual(rest, {}, `an error response holds the error and nothing else: ${this.text.slice(0, 300)}`);
    const { code, message, ...more } = error as { code: string; message: string };
    assert.deepEqual(more, {});
    assert.ok(message.length > 0 && !/\n\s+at |select |insert /.test(message), message);
    return `${this.status} ${code}: ${message}`;
  }
}

export interface Sent {
  body?: unknown;
  /** A body that is sent unchanged instead of `body`. */
  raw?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
}

/** Plain HTTP with one token, without our client library. Every response is checked against the OpenAPI documents. */
export class Http {
  readonly token: string | undefined;
  readonly #plane: Pick<Harness, "fetch" | "url">;

  constructor(plane: Pick<Harness, "fetch" | "url">, token: string | undefined) {
    this.#plane = plane;
    this.token = token;
  }

  async send(method: string, path: string, { body, raw, headers = {} }: Sent = {}): Promise<Reply> {
    const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await this.#plane.fetch(this.#plane.url + path, {
      method,
      headers: {
        ...(this.token === undefined ? {} : { authorization: `Bearer ${this.token}` }),
        ...(content === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(content === undefined ? {} : { body: content }),
    });
    return new Reply(response.status, response.headers, await answerText(response));
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send("GET", path, { headers });
  }

  post(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send("POST", path, { body, headers });
  }
}

const BUSY_WAIT_MS = 2_000;
/** Retries like our clients when the database is overloaded, as happens with many requests on a slow machine. */
export const untilTaken = (ask: () => Promise<Reply>): Promise<Reply> =>
  until(
    "the server to have time",
    async () => {
      const reply = await ask();
      return reply.status !== 503 && reply;
    },
    { poll_ms: BUSY_WAIT_MS },
  );

let keys = 0;
/** Returns a header with a new idempotency key. */
export const freshKey = (): { "idempotency-key": string } => ({ "idempotency-key": `key ${process.pid}.${(keys += 1)}` });
