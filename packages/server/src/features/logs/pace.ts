import type { Plane } from "../../context.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";
import type { Session } from "../../link/index.ts";

/** What a flush costs besides its bytes, so that many small ones are no way around the limit. */
const FLUSH_BYTES = 1_024;
/**
 * While acknowledgements wait, the part that the robot's rate has paid for is acknowledged at this interval: an agent that
 * hears nothing for 30 s takes its records for lost and sends them again.
 */
const ACK_EVERY_MS = 1_000;
/**
 * An agent has 1 MiB of records on their way and stops there. A robot that owes more than this at its rate does not wait for
 * acknowledgements: its link is not read meanwhile.
 */
const OWED_BYTES_MAX = 4 * 1024 * 1024;

/** What is stored of a session's log and not yet acknowledged: paid for evenly between two times. */
interface Unacknowledged {
  acked_seq: number;
  last_seq: number;
  /** Monotonic. */
  since: number;
  due: number;
}

/**
 * How fast each robot may log. A flush is stored when it comes, and acknowledged once the robot's rate has paid for it; an
 * agent sends no more than 1 MiB ahead of the acknowledgements, so the rest stays in its spool and comes later. Nothing waits
 * here but one number for each robot. A robot that sends without waiting is read more slowly.
 */
export class LogPace {
  readonly #clock: Plane["clock"];
  readonly #rate: RateLimit;
  readonly #owed_ms_max: number;
  readonly #delayed: Plane["metrics"]["log_acks_delayed"];
  readonly #waiting = new WeakMap<Session, Unacknowledged>();

  constructor({ clock, settings, metrics }: Pick<Plane, "clock" | "settings" | "metrics">) {
    const { log_bytes_per_robot_per_second: per_second, log_burst_bytes_per_robot: burst } = settings.limits;
    this.#clock = clock;
    this.#delayed = metrics.log_acks_delayed;
    this.#owed_ms_max = (OWED_BYTES_MAX * 1_000) / per_second;
    this.#rate = new RateLimit(clock, "logs", { per_minute: per_second * 60, burst });
  }

  /** Acknowledges stored records up to a number, now or when the robot's rate allows. `bytes`: of those behind `after_seq`, which are new. */
  acknowledge(session: Session, { after_seq, last_seq, bytes }: { after_seq: number; last_seq: number; bytes: number }): void {
    const owed_ms = this.#rate.owe(session.robot_id, bytes + FLUSH_BYTES);
    if (owed_ms > this.#owed_ms_max) session.pauseReading(owed_ms - this.#owed_ms_max);
    const now = this.#clock.monotonic();
    const waiting = this.#waiting.get(session);
    if (waiting !== undefined) {
      Object.assign(waiting, { acked_seq: paidFor(waiting, now), last_seq, since: now, due: now + owed_ms });
    } else if (owed_ms > 0) {
      this.#delayed.inc();
      this.#waiting.set(session, { acked_seq: after_seq, last_seq, since: now, due: now + owed_ms });
      this.#acknowledgeLater(session);
    } else session.send({ type: "log_ack", seq: last_seq });
  }

  #acknowledgeLater(session: Session): void {
    const waiting = this.#waiting.get(session);
    if (waiting === undefined) return;
    const wait_ms = Math.min(ACK_EVERY_MS, Math.max(1, waiting.due - this.#clock.monotonic()));
    this.#clock.setTimer(wait_ms, () => {
      const now = this.#clock.monotonic();
      if (now >= waiting.due) this.#waiting.delete(session);
      const is_open = session.send({ type: "log_ack", seq: paidFor(waiting, now) });
      if (is_open) this.#acknowledgeLater(session);
      else this.#waiting.delete(session);
    });
  }
}

/** The last record that the rate has paid for: numbers and costs are taken to be even, what matters is the time of the last one. */
function paidFor({ acked_seq, last_seq, since, due }: Unacknowledged, now: number): number {
  if (now >= due) return last_seq;
  return acked_seq + Math.floor(((last_seq - acked_seq) * (now - since)) / (due - since));
}

const paces = new WeakMap<Plane["link"], LogPace>();

export function logPaceOf(plane: Plane): LogPace {
  let pace = paces.get(plane.link);
  if (pace === undefined) paces.set(plane.link, (pace = new LogPace(plane)));
  return pace;
}
