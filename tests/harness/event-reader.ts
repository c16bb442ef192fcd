import assert from "node:assert/strict";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { until } from "@roamfleet/clock/testing";
import type { Change, ChangeSummary } from "@roamfleet/protocol/routes";

export interface HeardEvent {
  event: string;
  id: string | undefined;
  data: Record<string, unknown>;
}

const WAIT_MS = 60_000;

/** A client of `GET /api/events` over plain HTTP that behaves like a browser, and records events and their times. */
export class EventReader implements Disposable {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly heard: HeardEvent[] = [];
  /** Resolves with the time of the stream's end, by performance.now(). */
  readonly ended: Promise<number>;
  is_ended = false;
  /** The id that a browser would send on a reconnect. */
  last_event_id: string | undefined;
  /** Number of heartbeats, which are not in `heard`. */
  beats = 0;
  /** Bytes of received events, including heartbeats. */
  bytes = 0;
  /** Called after each event of `heard`. */
  onHeard: (event: HeardEvent) => void = () => {};
  /** The reconnect delay that the server sent. */
  retry_ms: number | undefined;
  #text = "";
  readonly #request: ClientRequest;
  readonly #response: IncomingMessage;

  private constructor(sent: ClientRequest, response: IncomingMessage) {
    this.#request = sent;
    this.#response = response;
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    this.ended = new Promise((resolve) => {
      response.once("close", () => {
        this.is_ended = true;
        resolve(performance.now());
      });
    });
    response.on("error", () => {});
    response.setEncoding("utf8");
  }

  /** Opens a stream. `stalled`: nothing is read until `resume`. `coalesce`: coalesced events, as in the dashboard. */
  static async open(
    url: string,
    headers: Record<string, string>,
    {
      last_event_id,
      stalled = false,
      coalesce = false,
    }: { last_event_id?: string | undefined; stalled?: boolean; coalesce?: boolean } = {},
  ): Promise<EventReader> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request(`${url}/api/events${coalesce ? "?coalesce=true" : ""}`, {
      headers: { ...headers, accept: "text/event-stream", ...(last_event_id === undefined ? {} : { "last-event-id": last_event_id }) },
      agent: false,
      timeout: WAIT_MS,
    });
    sent.on("response", resolve).on("error", reject).end();
    const reader = new EventReader(sent, await promise);
    if (!stalled) {
      reader.resume();
      if (reader.status === 200) await reader.until("ready", ({ event }) => event === "ready");
    }
    return reader;
  }

  resume(): void {
    this.#response.on("data", (chunk: string) => this.#take(chunk));
  }

  get changes(): Change[] {
    return this.heard.filter(({ event }) => event === "change").map(({ data }) => data as unknown as Change);
  }

  /** All changes and summaries that a coalescing reader received. */
  get coalesced(): (Change | ChangeSummary)[] {
    return this.heard.flatMap(({ event, data }) => (event === "changes" ? (data.changes as (Change | ChangeSummary)[]) : []));
  }

  of(kind: Change["kind"]): Change[] {
    return this.changes.filter((change) => change.kind === kind);
  }

  async until(what: string, look: (event: HeardEvent) => boolean): Promise<HeardEvent> {
    const detail = (): string => `heard ${JSON.stringify(this.heard).slice(-2_000)}`;
    const find = (): HeardEvent | undefined => {
      const found = this.heard.find(look);
      assert.ok(found !== undefined || !this.is_ended, `the stream ended without ${what}; ${detail()}`);
      return found;
    };
    return until(what, find, { detail });
  }

  close(): void {
    this.#request.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #take(chunk: string): void {
    this.#text += chunk;
    this.bytes += Buffer.byteLength(chunk);
    for (let end = this.#text.indexOf("\n\n"); end >= 0; end = this.#text.indexOf("\n\n")) {
      const lines = this.#text.slice(0, end).split("\n");
      this.#text = this.#text.slice(end + 2);
      const field = (name: string): string | undefined => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const [id, event, data] = [field("id"), field("event"), field("data")];
      this.last_event_id = id ?? this.last_event_id;
      if (field("retry") !== undefined) this.retry_ms = Number(field("retry"));
      if (event === "beat") this.beats += 1;
      else if (event !== undefined && data !== undefined) {
        const heard = { event, id, data: JSON.parse(data) as Record<string, unknown> };
        this.heard.push(heard);
        this.onHeard(heard);
      }
    }
  }
}
