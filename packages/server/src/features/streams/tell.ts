import type { IncomingMessage } from "node:http";
import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { appendAudit, pathWithoutQuery, sessionOf, userAgentOf } from "../../kernel/audit.ts";
import { Endings } from "../../kernel/endings.ts";
import type { Admitted } from "./admit.ts";
import { deleteOpenStream, insertOpenStream, listOrphans, type OpenStream, type StreamEntry } from "./store.ts";

/** How a stream ended: the code of its close, and in a word why. */
export interface StreamEnd {
  code: number | null;
  reason: string;
}

/** The server that held it was killed, or its machine went. */
const SERVER_LOST: StreamEnd = { code: null, reason: "server_lost" };

const OF_SERVER = new Map<number, string>(Object.entries(CLOSE).map(([reason, code]) => [code, reason]));
/** What WebSockets call a connection that went without a close. */
export const CLOSED_ABNORMALLY = 1006;
const ENDED_IN_ORDER = 1000;

/** `ended_with`: the code that the server gave. The words in which a viewer closes are not repeated. */
export function endOf(ended_with: number | undefined, code: number, broke_protocol = false): StreamEnd {
  if (ended_with === ENDED_IN_ORDER) return { code: ended_with, reason: "ended" };
  if (ended_with !== undefined) return { code: ended_with, reason: OF_SERVER.get(ended_with) ?? "server_error" };
  if (broke_protocol) return { code, reason: "protocol_error" };
  return { code, reason: code === CLOSED_ABNORMALLY ? "connection_lost" : "viewer_left" };
}

/** What the audit knows of streams: each that was opened is told to have closed, once. */
export class StreamBook {
  readonly #plane: Plane;
  readonly #endings: Endings;

  constructor(plane: Plane) {
    this.#plane = plane;
    this.#endings = new Endings(plane, "stream");
  }

  /** Writes that a stream is opened, before anything of it is: who watched is known also when the server dies meanwhile. */
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

  /** Writes that it is over, how, and after how long. While that cannot be written, the sweep tries again. */
  async closed(open: OpenStream, end: StreamEnd): Promise<void> {
    const duration_seconds = (this.#plane.clock.now().getTime() - open.opened_at.getTime()) / 1_000;
    await this.#endings.tell(open.id, () => writeClosed(this.#plane, open, end, duration_seconds));
  }

  /** Tells of the ends that could not be written, and of streams whose server is gone: when they ended is not known. */
  async sweep(): Promise<void> {
    const { db, node } = this.#plane;
    await this.#endings.sweep(
      (page) => listOrphans(db, node, page),
      (open) => writeClosed(this.#plane, open, SERVER_LOST, null),
    );
  }
}

/** Once for each stream: whoever takes its row away tells. */
const writeClosed = (plane: Plane, { org_id, id, entry }: OpenStream, end: StreamEnd, duration_seconds: number | null): Promise<void> =>
  plane.db.forOrg(org_id).transaction(async (tx) => {
    if ((await deleteOpenStream(tx, org_id, id)) === 0) return;
    const data = { ...entry.data, reason: end.reason, duration_seconds };
    await appendAudit(tx, plane, { ...entry, action: "stream.closed", status: end.code, data });
  });
