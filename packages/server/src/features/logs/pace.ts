import type { Plane } from "../../context.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";
import type { Session } from "../../link/index.ts";

/** Cost of a flush in addition to its bytes, so that many small flushes are limited too. */
const FLUSH_BYTES = 1_024;
/**
 * Delayed acknowledgements are sent in part at this interval, as far as the robot's rate allows: an agent without one for 30 s
 * sends its records again.
 */
const ACK_EVERY_MS = 1_000;
/**
 * An agent sends at most 1 MiB of unacknowledged records. A robot with more than this does not wait for acknowledgements, so its
 * link is paused.
 */
const OWED_BYTES_MAX = 4 * 1024 * 1024;

/** The stored but unacknowledged records of a session, which are acknowledged evenly between two times. */
interface Unacknowledged {
  acked_seq: number;
  last_seq: number;
  /** Monotonic, like `due`. */
  since: number;
  due: number;
}

/**
 * Limits the log rate of each robot. A flush is stored on receipt, and acknowledged when the robot's rate allows. An agent sends at
 * most 1 MiB ahead of the acknowledgements, so further records wait in its spool. The server stores only a few numbers for each
 * robot. The link of a robot that does not wait for acknowledgements is paused.
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

  /** Acknowledges stored records up to `last_seq`, now or when the robot's rate allows. `bytes` is the size of the new ones, after `after_seq`. */
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

/** Returns the last record that may be acknowledged now: interpolated, as only the time of the last one matters. */
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
