import { ID_PREFIXES, shellEndText } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { CloseEventWriter } from "../../kernel/close-event-writer.ts";
import { announce } from "../events/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { Recorder } from "./recorder.ts";
import { endSession, insertSession, listOrphans, type NewSession, type SessionEnd } from "./store.ts";

/** The request that opens a shell. */
export interface ShellRequest {
  org_id: string;
  robot_id: string;
  /** Id of the HTTP request, which its audit entries also contain. */
  request_id: string;
  actor: Actor;
  ip: string;
  app: string | null;
  command: string[] | null;
  terminal: boolean;
  cols: number;
  rows: number;
  term: string;
}

type Ended = Pick<NewSession, "org_id" | "id" | "robot_id" | "actor" | "started_at">;

/** An open shell session. It is stored before its shell opens, recorded while the shell is open, and closed exactly once. */
export class ShellSession {
  readonly id: string;
  readonly recorder: Recorder;
  readonly #end: (end: Omit<SessionEnd, "ended_at">) => Promise<void>;

  constructor(id: string, recorder: Recorder, end: (end: Omit<SessionEnd, "ended_at">) => Promise<void>) {
    this.id = id;
    this.recorder = recorder;
    this.#end = end;
  }

  /** Writes the rest of the recording and the result of the session. Never throws. */
  async end(end: Omit<SessionEnd, "ended_at">): Promise<void> {
    await this.recorder.finish();
    await this.#end(end);
  }
}

/** The registry of shell sessions. Writes the start of each session, and exactly once its end, to the session's row and to the timeline. */
export class ShellRegistry {
  readonly #plane: Plane;
  /** One promise for each session whose end is not written yet. */
  readonly #open = new Set<Promise<void>>();
  readonly #close_events: CloseEventWriter;

  constructor(plane: Plane) {
    this.#plane = plane;
    this.#close_events = new CloseEventWriter(plane, "shell");
  }

  /** Stores a session before its shell opens. If this throws, the shell must not open. `onFailure` is called if the recording fails. */
  async open(request: ShellRequest, onFailure: (reason: string) => void): Promise<ShellSession> {
    const plane = this.#plane;
    const { cols, rows, term, ...known } = request;
    const started_at = plane.clock.now();
    const session: NewSession = { ...known, id: plane.id(ID_PREFIXES.shell_session), started_at };
    const { org_id, robot_id, actor, id, app, command } = session;
    const where = app === null ? "A shell" : `A shell in ${app}`;
    await plane.db.forOrg(org_id).transaction(async (tx) => {
      await insertSession(tx, session, plane.node);
      announce(tx, plane, org_id, { kind: "shell_session", id, change: "created", robot_id, status: "open" });
      const data = { session_id: id, app };
      await recordTimeline(tx, plane, { org_id, robot_id, actor, kind: "shell.opened", summary: `${where} was opened`, data });
    });
    const recorder = new Recorder({
      plane,
      org_id,
      session_id: id,
      header: {
        width: cols,
        height: rows,
        timestamp: Math.floor(started_at.getTime() / 1_000),
        ...(command === null ? {} : { command: command.join(" ") }),
        env: { TERM: term },
      },
      onFailure,
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#open.add(promise);
    return new ShellSession(id, recorder, async (end) => {
      const ended = { ...end, ended_at: plane.clock.now() };
      await this.#close_events.write(id, () => writeSessionEnd(plane, session, ended));
      this.#open.delete(promise);
      resolve();
    });
  }

  /** Retries failed writes of session ends. Closes the sessions of dead servers, whose end time is unknown. */
  async sweep(): Promise<void> {
    const { db, node } = this.#plane;
    await this.#close_events.sweep(
      (page) => listOrphans(db, node, page),
      (session) => writeSessionEnd(this.#plane, session, { status: "aborted", exit_code: null, reason: "server_lost", ended_at: null }),
    );
  }

  /** Waits until every session that is open now has ended and its end is stored. */
  async settled(): Promise<void> {
    await Promise.all(this.#open);
  }
}

/**
 * Writes the end of a session. Only the transaction that closes the session's row writes the timeline entry, so there is exactly one entry.
 */
const writeSessionEnd = (plane: Plane, session: Ended, end: SessionEnd): Promise<void> =>
  plane.db.forOrg(session.org_id).transaction(async (tx) => {
    const { org_id, robot_id, actor, id, started_at } = session;
    if ((await endSession(tx, org_id, id, end)) === 0) return;
    const duration_seconds = end.ended_at === null ? null : (end.ended_at.getTime() - started_at.getTime()) / 1_000;
    const { status, exit_code, reason } = end;
    const data = { session_id: id, status, exit_code, reason, duration_seconds };
    announce(tx, plane, org_id, { kind: "shell_session", id, change: "status", robot_id, status });
    await recordTimeline(tx, plane, { org_id, robot_id, actor, kind: "shell.closed", summary: summaryOf(end), data });
  });

function summaryOf({ status, exit_code, reason }: SessionEnd): string {
  if (exit_code !== null) return `The shell ended with exit code ${exit_code}`;
  return `The shell ${status === "aborted" ? "was aborted" : "ended"}: ${shellEndText(reason)}`;
}
