import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";

interface LocalEvent {
  type: string;
  data: unknown;
}

interface NumberedEvent extends LocalEvent {
  /** Id of the event, `<run>-<number>`. The numbers start again with each run of the agent. */
  id: string;
}

/** Maximum number of past events in memory. Readers that reconnect get the events that they missed. */
export const EVENTS_KEPT_MAX = 256;

/** Ring buffer of the latest events. It numbers them and notifies listeners. */
export class EventRing {
  readonly #run: string;
  #number = 0;
  readonly #kept: NumberedEvent[] = [];
  readonly #listeners = new Set<(event: NumberedEvent) => void>();

  /** `run` is the id of this run of the agent. It must not contain a dash. */
  constructor(run: string) {
    this.#run = run;
  }

  add(type: string, data: unknown): void {
    this.#number += 1;
    const event: NumberedEvent = { id: `${this.#run}-${this.#number}`, type, data };
    this.#kept.push(event);
    if (this.#kept.length > EVENTS_KEPT_MAX) this.#kept.shift();
    for (const listener of this.#listeners) listener(event);
  }

  /** Returns the id of the latest event: the cursor of a reader that has received all events. */
  get last_id(): string {
    return `${this.#run}-${this.#number}`;
  }

  /**
   * Returns all events after this id. Returns undefined if some of them are lost: the id is from another run of the agent, or events
   * were evicted.
   */
  after(id: string): NumberedEvent[] | undefined {
    const match = /^([^-]+)-(\d{1,15})$/.exec(id);
    const number = Number(match?.[2]);
    if (match?.[1] !== this.#run || number > this.#number) return undefined;
    const missed = this.#number - number;
    return missed > this.#kept.length ? undefined : this.#kept.slice(this.#kept.length - missed);
  }

  listen(listener: (event: NumberedEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get listeners(): number {
    return this.#listeners.size;
  }
}

/** Maximum number of concurrent event readers; further ones are refused. */
export const EVENT_READERS_MAX = 16;
/**
 * Maximum bytes that wait for a slow reader. A reader over this limit is disconnected; it may resume from the last id that it
 * received.
 */
export const EVENT_BACKLOG_BYTES_MAX = 64 * 1024;
/** Interval of keep-alive comments, by which both ends notice a lost connection. */
export const KEEP_ALIVE_MS = 15_000;

interface EventStreamOptions {
  ring: EventRing;
  clock: Clock;
  log: Logger;
}

/** Streams events to a client as server-sent events, beginning after the request's Last-Event-ID. */
export function streamEvents(request: IncomingMessage, response: ServerResponse, { ring, clock, log }: EventStreamOptions): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.flushHeaders();
  const write = (text: string): void => {
    if (response.destroyed) return;
    response.write(text);
    if (response.writableLength <= EVENT_BACKLOG_BYTES_MAX) return;
    log.warn({ backlog_bytes: response.writableLength }, "disconnected a reader of local events that was too slow");
    response.destroy();
  };
  const last_id = request.headers["last-event-id"];
  const missed = typeof last_id === "string" ? ring.after(last_id) : [];
  // A reader that missed events must read the complete state again. Send the latest id, so that the reader can continue from there.
  if (missed === undefined) write(textOf({ id: ring.last_id, type: "events.missed", data: { last_event_id: last_id } }));
  else write(": listening\n\n");
  for (const event of missed ?? []) write(textOf(event));
  const stop = ring.listen((event) => write(textOf(event)));
  const keep_alive = clock.every(KEEP_ALIVE_MS, () => write(": still here\n\n"));
  response.on("close", () => {
    stop();
    keep_alive.cancel();
  });
}

const textOf = ({ id, type, data }: NumberedEvent): string => `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
