import type { IncomingMessage } from "node:http";
import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { appendAudit, pathWithoutQuery, sessionOf, userAgentOf } from "../../kernel/audit.ts";
import { CloseEventWriter } from "../../kernel/close-event-writer.ts";
import type { Admitted } from "./admit.ts";
import { deleteOpenStream, insertOpenStream, listOrphans, type OpenStream, type StreamEntry } from "./store.ts";
import type { Viewer } from "./viewer.ts";

/** How a stream ended: the WebSocket close code, and a reason in one word. */
interface StreamEnd {
  code: number | null;
  reason: string;
}

/** The end of a stream whose server was killed or whose machine failed. */
const SERVER_LOST: StreamEnd = { code: null, reason: "server_lost" };

const OF_SERVER = new Map<number, string>(Object.entries(CLOSE).map(([reason, code]) => [code, reason]));
/** The WebSocket code for a connection that ended without a close frame. */
export const CLOSED_ABNORMALLY = 1006;
const ENDED_IN_ORDER = 1000;

/**
 * Returns how a stream ended. `ended_with` is the close code if the server closed the stream. The close reason of a viewer is not used,
 * because it is untrusted.
 */
export function endOf(ended_with: number | undefined, code: number, broke_protocol = false): StreamEnd {
  if (ended_with === ENDED_IN_ORDER) return { code: ended_with, reason: "ended" };
  if (ended_with !== undefined) return { code: ended_with, reason: OF_SERVER.get(ended_with) ?? "server_error" };
  if (broke_protocol) return { code, reason: "protocol_error" };
  return { code, reason: code === CLOSED_ABNORMALLY ? "connection_lost" : "viewer_left" };
}

/** The registry of open streams. Writes an audit entry when a stream opens, and exactly one when it closes. */
export class StreamRegistry {
  readonly #plane: Plane;
  readonly #close_events: CloseEventWriter;

  constructor(plane: Plane) {
    this.#plane = plane;
    this.#close_events = new CloseEventWriter(plane, "stream");
  }

  /**
   * Writes the audit entry that a stream was opened. Call it before the stream opens, so that the audit is complete even if the server is
   * killed.
   */
  async opened(request: IncomingMessage, admitted: Admitted, request_id: string): Promise<OpenStream> {
    const { caller, ip, kind, robot_id } = admitted;
    const entry: StreamEntry = {
      org_id: caller.org_id,
      actor: caller.actor,
      token_id: caller.token_id,
      method: "GET",
      path: pathWithoutQuery(request.url ?? ""),
      object_id: robot_id,
      error: null,
      ip,
      user_agent: userAgentOf(request.headers),
      request_id,
      data: { stream: kind.name, ...sessionOf(caller) },
    };
    const { db, clock, node } = this.#plane;
    const open: OpenStream = { org_id: entry.org_id, id: request_id, entry, opened_at: clock.now() };
    await db.forOrg(entry.org_id).transaction(async (tx) => {
      await insertOpenStream(tx, open, node);
      await appendAudit(tx, this.#plane, { ...entry, action: "stream.opened", status: null });
    });
    return open;
  }

  /** Writes that a stream has ended, with the reason and duration. If the write fails, the sweep retries it. */
  async closed(open: OpenStream, end: StreamEnd): Promise<void> {
    const duration_seconds = (this.#plane.clock.now().getTime() - open.opened_at.getTime()) / 1_000;
    await this.#close_events.write(open.id, () => writeClosed(this.#plane, open, end, duration_seconds));
  }

  /** Retries failed writes of stream ends. Also writes the ends of streams of dead servers, without a duration. */
  async sweep(): Promise<void> {
    const { db, node } = this.#plane;
    await this.#close_events.sweep(
      (page) => listOrphans(db, node, page),
      (open) => writeClosed(this.#plane, open, SERVER_LOST, null),
    );
  }
}

/** Writes the end of a stream. Only the transaction that deletes the stream's row writes the audit entry, so there is exactly one entry. */
const writeClosed = (plane: Plane, { org_id, id, entry }: OpenStream, end: StreamEnd, duration_seconds: number | null): Promise<void> =>
  plane.db.forOrg(org_id).transaction(async (tx) => {
    if ((await deleteOpenStream(tx, org_id, id)) === 0) return;
    const data = { ...entry.data, reason: end.reason, duration_seconds };
    await appendAudit(tx, plane, { ...entry, action: "stream.closed", status: end.code, data });
  });

/** When the server stops, a viewer that does not answer the close frame within this time is disconnected. */
const DRAIN_TIMEOUT_MS = 2_000;

/** The viewers that are connected to this server. Also tracks the audit entries that are still being written for viewers that have left. */
export class OpenViewers {
  readonly all = new Set<Viewer>();
  readonly #registry: StreamRegistry;
  /** The running writes of stream ends. */
  readonly #ending = new Set<Promise<void>>();

  constructor(registry: StreamRegistry) {
    this.#registry = registry;
  }

  add(viewer: Viewer, open_stream: OpenStream): void {
    this.all.add(viewer);
    viewer.ws.once("close", (code) => {
      this.all.delete(viewer);
      const end = this.#registry
        .closed(open_stream, endOf(viewer.ended_with, code, viewer.broke_protocol))
        .finally(() => this.#ending.delete(end));
      this.#ending.add(end);
    });
  }

  /** Closes all viewers. Resolves when they have left and the ends of their streams are written. */
  async drain({ clock }: Plane): Promise<void> {
    const closed = Array.from(this.all, ({ ws }) => new Promise<void>((resolve) => ws.once("close", () => resolve())));
    for (const viewer of this.all) viewer.close(CLOSE.draining, "the server is stopping");
    const cut = clock.setTimer(DRAIN_TIMEOUT_MS, () => {
      for (const { ws } of this.all) ws.terminate();
    });
    await Promise.all(closed);
    cut.cancel();
    await Promise.all(this.#ending);
  }
}
