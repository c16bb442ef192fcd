import type { Clock, Timer } from "@roamfleet/clock";
import type { Outbox } from "../spool/outbox.ts";
import type { Session } from "./session.ts";

/** After so long without an acknowledgement, reports were lost although the link is up. */
const REPORT_ACK_TIMEOUT_MS = 30_000;
const REPORTS_AT_ONCE = 100;
/** A report is far smaller. With less room than this, the sender waits for frames to leave. */
const ROOM_BYTES_MIN = 64 * 1024;

/** The part of an outbox that sending needs; simulated robots use one in memory. */
export type ReportQueue = Pick<Outbox, "after" | "acknowledge">;

/** Sends the outbox in order over the current session, and resends unacknowledged reports. */
export class ReportSender {
  readonly #outbox: ReportQueue;
  readonly #clock: Clock;
  #session: Session | undefined;
  #sent = 0;
  #acked = 0;
  #timeout: Timer | undefined;

  constructor(outbox: ReportQueue, clock: Clock) {
    this.#outbox = outbox;
    this.#clock = clock;
  }

  start(session: Session, acked_seq: number): void {
    this.stop();
    this.#session = session;
    this.#acked = acked_seq;
    this.#sent = acked_seq;
    this.pump();
  }

  stop(): void {
    this.#session = undefined;
    this.#timeout?.cancel();
  }

  acknowledge(seq: number): void {
    if (seq <= this.#acked) return;
    this.#acked = seq;
    this.#sent = Math.max(this.#sent, seq);
    this.#outbox.acknowledge(seq);
    this.#watchAck();
  }

  /** Sends the reports that were not sent yet while there is room. */
  pump(): void {
    const session = this.#session;
    if (session === undefined) return;
    const idle = this.#sent === this.#acked;
    while (this.#sendSome(session));
    if (idle) this.#watchAck();
  }

  /** Returns whether there may be more to send now. */
  #sendSome(session: Session): boolean {
    if (session.room("control") < ROOM_BYTES_MIN) return false;
    const reports = this.#outbox.after(this.#sent, REPORTS_AT_ONCE);
    for (const report of reports) {
      if (!session.send(report)) return false;
      this.#sent = report.seq;
    }
    return reports.length > 0;
  }

  #watchAck(): void {
    this.#timeout?.cancel();
    if (this.#sent === this.#acked) return;
    this.#timeout = this.#clock.setTimer(REPORT_ACK_TIMEOUT_MS, () => {
      this.#sent = this.#acked;
      this.pump();
    });
  }
}
