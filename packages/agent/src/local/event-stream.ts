import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { EventRing, NumberedEvent } from "./event-ring.ts";

/** Readers of events at the same time; one more is refused. */
export const EVENT_READERS_MAX = 16;
/** Written and not yet taken by a reader: past this it is cut, and may come back with the last id that it saw. */
export const EVENT_BACKLOG_BYTES_MAX = 64 * 1024;
/** A comment, so that both ends notice when the other is gone. */
export const KEEP_ALIVE_MS = 15_000;

export interface EventStreamOptions {
  ring: EventRing;
  clock: Clock;
  log: Logger;
}

/** Answers a request with events as they happen (server-sent events), those after its Last-Event-ID first. */
export function streamEvents(request: IncomingMessage, response: ServerResponse, { ring, clock, log }: EventStreamOptions): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.flushHeaders();
  const write = (text: string): void => {
    if (response.destroyed) return;
    response.write(text);
    if (response.writableLength <= EVENT_BACKLOG_BYTES_MAX) return;
    log.warn({ backlog_bytes: response.writableLength }, "a reader of local events was too slow and was cut");
    response.destroy();
  };
  const last_id = request.headers["last-event-id"];
  const missed = typeof last_id === "string" ? ring.after(last_id) : [];
  // Whoever missed something reads the state anew; the id lets it go on from here.
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
