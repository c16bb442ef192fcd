import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { EventRing, NumberedEvent } from "./event-ring.ts";

/** Maximum concurrent readers of events; another one is refused. */
export const EVENT_READERS_MAX = 16;
/** Maximum bytes that a reader has not taken yet. Past this it is disconnected, and may resume with the last id that it received. */
export const EVENT_BACKLOG_BYTES_MAX = 64 * 1024;
/** Interval of keep-alive comments, so that both ends notice a lost connection. */
export const KEEP_ALIVE_MS = 15_000;

export interface EventStreamOptions {
  ring: EventRing;
  clock: Clock;
  log: Logger;
}

/** Streams events as they happen (server-sent events), beginning after the request's Last-Event-ID. */
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
  // A reader that missed events reads the state again; with this id it continues from here.
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
