import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { background, type Background } from "./background.ts";
import type { Db } from "./db.ts";
import { json, jsonb, row, sql, timestamptz } from "./sql.ts";

/** A forward jump of the wall clock affects deletions only after the server has run with it for this long, by the monotonic clock. */
export const HOLD_MS = 86_400_000;
/** Smaller forward jumps are ignored: reading the two clocks one after the other takes up to some milliseconds. */
const NOISE_MS = 1_000;
/** Maximum jumps in the history. A server in a restart loop adds one at each start. */
const JUMPS_MAX = 32;

/** A forward step of the wall clock relative to the monotonic clock. The step is younger than HOLD_MS. */
interface ForwardJump {
  ahead_ms: number;
  /** Running time since the step, over all runs of the server. */
  held_ms: number;
}

/** History of the wall clock: the last reading, and the forward jumps that are not trusted yet, oldest first. */
export interface ClockHistory {
  readonly seen_at: Date;
  readonly jumps: readonly ForwardJump[];
}

/**
 * Returns the history with a new reading of the wall clock. `elapsed_ms` is the monotonic time since the last reading. After a restart it
 * is unknown and counts as 0: a server that was off for a month looks the same as a clock that is a month ahead.
 */
export function observe({ seen_at, jumps }: ClockHistory, now: Date, elapsed_ms: number): ClockHistory {
  const pending = jumps
    .map(({ ahead_ms, held_ms }) => ({ ahead_ms, held_ms: held_ms + elapsed_ms }))
    .filter(({ held_ms }) => held_ms < HOLD_MS);
  const jump_ms = now.getTime() - seen_at.getTime() - elapsed_ms;
  if (jump_ms > NOISE_MS) pending.push({ ahead_ms: jump_ms, held_ms: 0 });
  else if (jump_ms < 0) takeBack(pending, -jump_ms);
  while (pending.length > JUMPS_MAX) mergeNewest(pending);
  return { seen_at: now, jumps: pending };
}

/** Returns the time for deletions by age: the last reading minus the jumps that are not trusted yet. Never later than the reading. */
export const trustedTime = (history: ClockHistory): Date => new Date(history.seen_at.getTime() - untrustedMs(history));

/** How far the wall clock is ahead of the trusted time. */
export const untrustedMs = ({ jumps }: ClockHistory): number => jumps.reduce((sum, { ahead_ms }) => sum + ahead_ms, 0);

/** Subtracts a backward jump from the newest forward jumps. The remainder lowers the trusted time, so that fewer rows are deleted. */
function takeBack(pending: ForwardJump[], back_ms: number): void {
  for (let left = back_ms; left > 0;) {
    const newest = pending.at(-1);
    if (newest === undefined) return;
    const taken = Math.min(left, newest.ahead_ms);
    newest.ahead_ms -= taken;
    left -= taken;
    if (newest.ahead_ms === 0) pending.pop();
  }
}

function mergeNewest(pending: ForwardJump[]): void {
  const [before, newest] = pending.splice(-2) as [ForwardJump, ForwardJump];
  pending.push({ ahead_ms: before.ahead_ms + newest.ahead_ms, held_ms: newest.held_ms });
}

const SAVE_EVERY_MS = 600_000;
/** Larger jumps are logged as errors. Restarts and time synchronization stay below this. */
const WORTH_AN_ERROR_MS = 3_600_000;
const historyRow = row({ seen_at: timestamptz, jumps: jsonb<ForwardJump[]>() });

interface RetentionClockOptions {
  db: Db;
  clock: Clock;
  log: Logger;
  /** True if the database runs on another machine. The clock of that machine is then compared with the server's. */
  has_remote_database: boolean;
}

/**
 * The clock for deletions by age. It follows the wall clock, but ignores a forward jump until the server has run with it for a day on the
 * monotonic clock. So a wrong clock, at the start or later, causes no deletions. The database stores the last known time across restarts.
 */
export class RetentionClock {
  readonly #options: RetentionClockOptions;
  #history: ClockHistory;
  #read_at: number;
  /** The database's clock minus the server's, at the last comparison. */
  #database_ahead_ms = 0;
  #disagrees = false;

  private constructor(options: RetentionClockOptions) {
    this.#options = options;
    this.#history = { seen_at: options.clock.now(), jumps: [] };
    this.#read_at = options.clock.monotonic();
  }

  /**
   * Reads the last known time from the database. Databases of earlier versions had none: the migration set it to the time of the newest
   * row.
   */
  static async open(options: RetentionClockOptions): Promise<RetentionClock> {
    const known = await options.db.maybe(sql(historyRow)`select ${historyRow} from retention_clock`);
    const opened = new RetentionClock(options);
    await opened.#compare();
    opened.#history = known ?? { seen_at: opened.#read(), jumps: [] };
    opened.#read_at = options.clock.monotonic();
    opened.now();
    return opened;
  }

  /** Returns the current time for deletions by age. Never ahead of the wall clock. */
  now(): Date {
    const { clock } = this.#options;
    const monotonic = clock.monotonic();
    const now = this.#read();
    const before = this.#history;
    this.#history = observe(before, now, monotonic - this.#read_at);
    this.#report(now.getTime() - before.seen_at.getTime() - (monotonic - this.#read_at), untrustedMs(before));
    this.#read_at = monotonic;
    return trustedTime(this.#history);
  }

  /** How far the wall clock is ahead of `now()`. */
  get behind_ms(): number {
    return this.#options.clock.now().getTime() - this.now().getTime();
  }

  /** Saves the last known time every 10 minutes until `stop` is called, and once more then. */
  start(): Background {
    const work = background(this.#options, "retention clock", SAVE_EVERY_MS, async () => {
      await this.#compare();
      await this.#save();
    });
    work.wake();
    const stop = async (): Promise<void> => {
      await work.stop();
      await this.#save().catch((error: unknown) => this.#options.log.warn({ err: error }, "could not save the last known time"));
    };
    return { ...work, stop };
  }

  /** Returns the earlier of the server's and the database's clock. */
  #read(): Date {
    return new Date(this.#options.clock.now().getTime() + Math.min(0, this.#database_ahead_ms));
  }

  async #compare(): Promise<void> {
    const { db, clock, log, has_remote_database } = this.#options;
    if (!has_remote_database) return;
    const { at } = await db.one(sql(row({ at: timestamptz }))`select clock_timestamp() as at`);
    this.#database_ahead_ms = at.getTime() - clock.now().getTime();
    const disagrees = Math.abs(this.#database_ahead_ms) > WORTH_AN_ERROR_MS;
    if (disagrees && !this.#disagrees)
      log.error(
        { database_ahead_seconds: Math.round(this.#database_ahead_ms / 1_000) },
        "the clocks of server and database differ by over an hour: the earlier one decides what is old enough to delete",
      );
    this.#disagrees = disagrees;
  }

  async #save(): Promise<void> {
    this.now();
    const { seen_at, jumps } = this.#history;
    await this.#options.db.run(sql`
      insert into retention_clock (id, seen_at, jumps) values (1, ${seen_at}, ${json(jumps)})
      on conflict (id) do update set seen_at = excluded.seen_at, jumps = excluded.jumps`);
  }

  #report(jump_ms: number, untrusted_before_ms: number): void {
    const { log } = this.#options;
    const retention_time = trustedTime(this.#history).toISOString();
    const now = this.#history.seen_at.toISOString();
    if (jump_ms > WORTH_AN_ERROR_MS)
      log.error(
        { jump_seconds: Math.round(jump_ms / 1_000), now, retention_time, hold_hours: HOLD_MS / 3_600_000 },
        "the clock is ahead of the last known time: deletions by age use the new time only after it has been stable for a day",
      );
    else if (jump_ms < -WORTH_AN_ERROR_MS)
      log.error({ jump_seconds: Math.round(jump_ms / 1_000), now, retention_time }, "the clock is behind the last known time");
    else if (untrusted_before_ms > WORTH_AN_ERROR_MS && untrustedMs(this.#history) <= WORTH_AN_ERROR_MS)
      log.info({ now, retention_time }, "deletions by age use the current time again");
  }
}
