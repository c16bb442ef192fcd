import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Timer } from "@roamfleet/clock";
import type { LogCursorFrame } from "@roamfleet/protocol/log-frame";
import type { Plane } from "../../context.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { LogPosition } from "../logs/index.ts";
import type { Viewer } from "./viewer.ts";

/** The position up to which the log of each robot was sent, by robot id. Undefined is the start of the log. */
export type LogPositions = ReadonlyMap<string, LogPosition | undefined>;

/** Maximum robots with a separate position in a cursor. A cursor with this number has 6,000 characters; proxies accept URLs of 8 KiB. */
export const CURSOR_ROBOTS_MAX = 250;
/** Number of characters of a robot's id that a cursor contains. They have 50 random bits. */
const ID_CHARACTERS = 10;
const JSON_BYTES_MAX = 64 * 1024;
const TIME_MS_MAX = Date.parse("9999-12-31T00:00:00Z");
const DAY_MS = 86_400_000;

type Row = [id: string, received_ms: number, seq: number];
/**
 * The content of a cursor. A row has the position of a robot. `rest_ms` is the newest receive time of the robots without a row; 0 if there
 * are none.
 */
type Content = [id: string, day: number, rest_ms: number, rows: Row[]];

const timeOf = (position: LogPosition | undefined): string => position?.received_at ?? "";
const shortId = (robot_id: string): string => robot_id.slice(-ID_CHARACTERS);

/**
 * Returns the positions by robot, the oldest first. For 10,000 robots it takes 1 ms if they are almost in this order, and 10 ms in random
 * order.
 */
export const sortByTime = (positions: LogPositions): [robot_id: string, position: LogPosition | undefined][] =>
  Array.from(positions).toSorted(([, a], [, b]) => Number(timeOf(a) > timeOf(b)) - Number(timeOf(a) < timeOf(b)));

/**
 * Encodes the positions of a robot or fleet as a cursor. The CURSOR_ROBOTS_MAX robots that logged last have separate positions. The other
 * robots share one time.
 */
export function encodeLogCursor(id: string, positions: LogPositions, now: Date): string {
  const robots = sortByTime(positions);
  const rows = robots
    .slice(-CURSOR_ROBOTS_MAX)
    .map(([robot_id, end]): Row => [shortId(robot_id), end === undefined ? 0 : Date.parse(end.received_at), end?.seq ?? 0]);
  const rest = robots.at(-CURSOR_ROBOTS_MAX - 1)?.[1];
  const content: Content = [id, Math.floor(now.getTime() / DAY_MS), rest === undefined ? 0 : Date.parse(rest.received_at), rows];
  return deflateRawSync(JSON.stringify(content)).toString("base64url");
}

/** A decoded cursor: the position at which the log of each robot continues. */
export class LogCursor {
  readonly #rows: ReadonlyMap<string, Row>;
  readonly #rest_ms: number;

  private constructor([, , rest_ms, rows]: Content) {
    this.#rows = new Map(rows.map((row) => [row[0], row]));
    this.#rest_ms = rest_ms;
  }

  /**
   * Decodes a cursor. Throws 400 if the cursor is invalid, belongs to another robot or fleet, or is so old that the records after it may
   * have been deleted.
   */
  static decode(text: string, { id, plane }: { id: string; plane: Pick<Plane, "clock" | "settings"> }): LogCursor {
    const content = parse(text);
    if (content === undefined) throw badRequest("cursor is invalid: use a cursor that this log stream sent");
    const [of, day] = content;
    if (of !== id) throw badRequest("cursor belongs to the log of another robot or fleet");
    const { log_retention_days } = plane.settings.limits;
    if (day + log_retention_days < Math.floor(plane.clock.now().getTime() / DAY_MS))
      throw badRequest(`cursor has expired: logs are kept for ${log_retention_days} days. Start without a cursor`);
    return new LogCursor(content);
  }

  /** Returns the positions of these robots. Omits robots that were not in the stream. */
  positionsOf(robots: Iterable<string>): Map<string, LogPosition | undefined> {
    const positions = new Map<string, LogPosition | undefined>();
    for (const robot_id of robots) {
      const row = this.#rows.get(shortId(robot_id));
      if (row !== undefined) positions.set(robot_id, row[1] === 0 ? undefined : { received_at: wireMs(row[1]), seq: row[2] });
      else if (this.#rest_ms > 0) positions.set(robot_id, { received_at: wireMs(this.#rest_ms), seq: Number.MAX_SAFE_INTEGER });
    }
    return positions;
  }
}

const wireMs = (ms: number): string => new Date(ms).toISOString();

function parse(text: string): Content | undefined {
  try {
    const json = inflateRawSync(Buffer.from(text, "base64url"), { maxOutputLength: JSON_BYTES_MAX }).toString("utf8");
    const content = JSON.parse(json) as unknown;
    return isContent(content) ? content : undefined;
  } catch {
    return undefined;
  }
}

const isContent = (value: unknown): value is Content => {
  if (!Array.isArray(value) || value.length !== 4) return false;
  const [id, day, rest_ms, rows] = value as unknown[];
  return typeof id === "string" && isCount(day) && isTime(rest_ms) && Array.isArray(rows) && rows.every(isRow);
};
const isRow = (row: unknown): boolean =>
  Array.isArray(row) && row.length === 3 && typeof row[0] === "string" && isTime(row[1]) && isCount(row[2]);
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isTime = (value: unknown): boolean => isCount(value) && (value as number) <= TIME_MS_MAX;

/**
 * Interval at which a reader gets cursors. A reader that resumes gets the records since its last cursor again, usually those of this
 * interval.
 */
const CURSOR_EVERY_MS = 2_000;
/** If a viewer has more unread bytes than this, its next cursor is delayed. */
const UNREAD_BYTES_MAX = 64 * 1024;

/** Sends a cursor to the viewer of a log stream at an interval, if the cursor has changed. */
export class CursorSender {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #read: () => LogPositions | undefined;
  #again: Timer | undefined;
  #last = "";

  /** `read` returns the positions up to which every record was sent. It returns undefined while these positions are unknown. */
  constructor(plane: Plane, viewer: Viewer, read: () => LogPositions | undefined) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#read = read;
  }

  /** Sends the first cursor, and starts the interval. */
  start(): void {
    this.#send();
    if (this.#viewer.open) this.#again = this.#plane.clock.every(CURSOR_EVERY_MS, () => this.#send());
  }

  stop(): void {
    this.#again?.cancel();
  }

  #send(): void {
    const positions = this.#read();
    if (positions === undefined || !this.#viewer.open || this.#viewer.ws.bufferedAmount > UNREAD_BYTES_MAX) return;
    const cursor = encodeLogCursor(this.#viewer.admitted.robot_id, positions, this.#plane.clock.now());
    if (cursor === this.#last) return;
    this.#last = cursor;
    this.#viewer.ws.send(JSON.stringify({ type: "cursor", cursor } satisfies LogCursorFrame));
  }
}
