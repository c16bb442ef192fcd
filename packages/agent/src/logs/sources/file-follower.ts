import { closeSync, type Stats } from "node:fs";
import type { Clock } from "@roamfleet/clock";
import type { LogLevel } from "@roamfleet/protocol/link";
import { listOf } from "../../json.ts";
import type { LogRateLimiter } from "../log-rate-limiter.ts";
import {
  findRotated,
  isTailState,
  LINE_BYTES_MAX,
  openRegular,
  readHead,
  reopen,
  rotatedFiles,
  statEntry,
  statOf,
  Tail,
  type TailLine,
  type TailState,
} from "./tail.ts";

/** Maximum bytes that are read from one file before the next file is read. */
const TURN_BYTES_MAX = 1024 * 1024;
/**
 * Maximum unread bytes of a file. Above it, lines are counted and skipped, since the agent could never catch up with a writer that is
 * always faster.
 */
export const FILE_BACKLOG_BYTES_MAX = 64 * 1024 * 1024;
/**
 * A rotated file is closed once it has not grown for this long. Until then, a writer that has not reopened its log may still append to the
 * file.
 */
export const ROTATED_QUIET_MS = 10_000;
/** Maximum rotated files of one path that are still read. */
const ROTATED_MAX = 5;
/** Number of bytes at the start of a file that are checked. A file with a zero byte among them counts as binary. */
const BINARY_BYTES = 512;

interface FollowerOptions {
  path: string;
  clock: Clock;
  limiter: LogRateLimiter;
  /** Returns whether the spool has room for more lines. While it has none, lines stay unread in the file. */
  spoolHasRoom: () => boolean;
  /** Returns whether a file is already read under another name. */
  isRead: (file: Stats) => boolean;
  /** Returns whether another follower reads this path. */
  isFollowed: (path: string) => boolean;
}

export interface FinishedFile {
  dev: number;
  ino: number;
  birth_ms: number;
}

interface Rotated {
  tail: Tail;
  /** Time at which the file last grew, on the monotonic clock. */
  grew_at: number;
  /** True if the file is a copy of a log that was then truncated (copytruncate). No process writes to the copy. */
  copy: boolean;
}

/** Follows the log file at one path through its rotations, whether they rename the file or copy and truncate it. */
export class FileFollower {
  readonly path: string;
  /** Rotated files that were read completely. The owner of this follower takes them from the list and clears it. */
  readonly finished: FinishedFile[] = [];
  readonly #options: FollowerOptions;
  #current: Tail | undefined;
  #rotated: Rotated[] = [];
  #moved = false;
  #binary = false;
  /** Saved positions in files that cannot be opened at the moment. */
  #unseen: TailState[] = [];

  constructor(options: FollowerOptions) {
    this.path = options.path;
    this.#options = options;
  }

  /** Starts with a new file. With `at_end`, only lines appended from now on are read. Returns false if the file cannot be read. */
  begin(at_end: boolean): boolean {
    const opened = openRegular(this.path);
    if (opened === undefined) return false;
    try {
      this.#binary = readHead(opened.handle, BINARY_BYTES).includes(0);
      this.#current = new Tail(opened.handle, opened.stat, { offset: at_end ? opened.stat.size : 0 });
    } catch {
      closeSync(opened.handle);
      return false;
    }
    this.#moved = true;
    return true;
  }

  get binary(): boolean {
    return this.#binary;
  }

  /**
   * Resumes from saved positions, even if the files were rotated meanwhile. Also reads the files that were written and rotated since the
   * positions were saved.
   */
  resume(states: readonly TailState[]): void {
    if (statEntry(this.path) === "unseen") {
      this.#unseen = [...states];
      return;
    }
    let newest_ms = 0;
    for (const state of states) {
      const here = reopen(this.path, state, "same_file");
      if (here !== undefined) {
        this.#current = here;
        continue;
      }
      const found = findRotated(this.path, state);
      if (found === undefined) {
        if (statOf(this.path) !== undefined) this.#reportLost();
        continue;
      }
      newest_ms = Math.max(newest_ms, found.mtime_ms);
      this.#rotated.push({ tail: found.tail, grew_at: this.#options.clock.monotonic(), copy: false });
    }
    if (this.#current !== undefined) return;
    if (newest_ms > 0) this.#addBetween(newest_ms);
    this.begin(false);
  }

  get states(): TailState[] {
    return [...this.#unseen, ...this.tails.map(({ state }) => state)];
  }

  static readStates(value: unknown): TailState[] {
    return listOf(value).filter(isTailState);
  }

  get tails(): Tail[] {
    return [...this.#rotated.map(({ tail }) => tail), ...(this.#current === undefined ? [] : [this.#current])];
  }

  /** Reads what was appended since the last call. Returns whether the position has changed and must be saved. */
  poll(): boolean {
    if (this.#binary) return false;
    this.#look();
    const now = this.#options.clock.monotonic();
    for (const rotated of this.#rotated) if (this.#read(rotated.tail)) rotated.grew_at = now;
    this.#closeQuiet(now);
    // Lines must keep their order. So read the current file only when the rotated ones have been read almost to their end.
    if (this.#current !== undefined && this.#rotated.every(({ tail }) => tail.stat().size - tail.offset < LINE_BYTES_MAX))
      this.#read(this.#current);
    const moved = this.#moved;
    this.#moved = false;
    return moved;
  }

  close(): void {
    for (const tail of this.tails) tail.close();
    this.#rotated = [];
    this.#current = undefined;
  }

  /** Detects whether the path now leads to another file, and whether the file was truncated. */
  #look(): void {
    const seen = statEntry(this.path);
    // The path is not accessible, so continue with the open file. The path is checked again at the next poll.
    if (seen === "unseen") return;
    const stat = seen === "gone" ? undefined : seen;
    if (this.#unseen.length > 0) this.resume(this.#unseen.splice(0));
    const current = this.#current;
    if (current !== undefined && (stat === undefined || stat.ino !== current.ino || stat.dev !== current.dev)) {
      this.#current = undefined;
      this.#addRotated(current, false);
      this.#addBetween(current.stat().mtimeMs);
    } else if (current !== undefined && stat !== undefined && current.wasCut(stat)) this.#onCut(current);
    if (this.#current !== undefined || stat === undefined) return;
    const back = this.#rotated.findIndex(({ tail }) => tail.ino === stat.ino && tail.dev === stat.dev);
    if (back >= 0) this.#current = this.#rotated.splice(back, 1)[0]?.tail;
    else if (!this.#options.isRead(stat)) this.begin(false);
  }

  /**
   * Handles a truncated file: starts it again from the beginning. The lines that were not read before are read from the rotated copy, if
   * there is one.
   */
  #onCut(current: Tail): void {
    const found = findRotated(this.path, current.state);
    if (found === undefined) this.#reportLost();
    else {
      this.#addRotated(found.tail, true);
      this.#addBetween(found.mtime_ms);
    }
    current.restart();
    this.#moved = true;
  }

  /**
   * Adds files that were written and rotated while no agent was reading. They are read after the file that was only partly read; `after_ms`
   * is the modification time of that file.
   */
  #addBetween(after_ms: number): void {
    for (const { path, mtime_ms } of rotatedFiles(this.path)) {
      // Include files with the same modification time, since file times are coarse. Files that were already read are recognized by their
      // inode.
      if (
        mtime_ms < after_ms ||
        !path.startsWith(this.path) ||
        !/^[.-]/.test(path.slice(this.path.length)) ||
        this.#options.isFollowed(path)
      )
        continue;
      const opened = openRegular(path);
      if (opened === undefined) continue;
      const { handle, stat } = opened;
      const tail = new Tail(handle, stat, { offset: 0 });
      if (this.#options.isRead(stat) || this.tails.some(({ dev, ino }) => dev === tail.dev && ino === tail.ino)) tail.close();
      else this.#addRotated(tail, false);
    }
  }

  #addRotated(tail: Tail, copy: boolean): void {
    this.#rotated.push({ tail, grew_at: this.#options.clock.monotonic(), copy });
    this.#moved = true;
    while (this.#rotated.length > ROTATED_MAX) {
      this.#reportLost();
      this.#finish(this.#rotated.shift()!);
    }
  }

  #closeQuiet(now: number): void {
    this.#rotated = this.#rotated.filter((rotated) => {
      const { tail, grew_at, copy } = rotated;
      const stat = tail.stat();
      const waits = stat.size - tail.offset >= LINE_BYTES_MAX || !this.#mayRead();
      if (waits || (!copy && now - grew_at < ROTATED_QUIET_MS)) return true;
      tail.readRest(stat.size, (line) => this.#take(line));
      this.#finish(rotated);
      return false;
    });
  }

  #finish({ tail }: Rotated): void {
    this.finished.push({ dev: tail.dev, ino: tail.ino, birth_ms: tail.birth_ms });
    this.#moved = true;
    tail.close();
  }

  #read(tail: Tail): boolean {
    const { size } = tail.stat();
    let read = 0;
    while (read < TURN_BYTES_MAX) {
      const too_much = size - tail.offset > FILE_BACKLOG_BYTES_MAX;
      const went = tail.read(size, (line) => (too_much ? this.#leaveOut(line) : this.#take(line)));
      if (went === 0) break;
      read += went;
    }
    if (read > 0) this.#moved = true;
    return read > 0;
  }

  #mayRead(): boolean {
    return this.#options.spoolHasRoom() && this.#options.limiter.hasRoom(this.path);
  }

  #take({ text, cut }: TailLine): boolean {
    if (text === "") return true;
    if (!this.#mayRead()) return false;
    const { limiter } = this.#options;
    limiter.write({ level: levelOfLine(text), source: this.path, message: text, ...(cut ? { fields: { truncated: true } } : {}) });
    return true;
  }

  #leaveOut({ text }: TailLine): boolean {
    if (text !== "") this.#options.limiter.drop(this.path, 1);
    return true;
  }

  #reportLost(): void {
    this.#options.limiter.write({
      level: "warn",
      source: "roamfleet",
      message: `${this.path} was rotated or truncated: the last lines of the old content may be missing`,
      fields: { source: this.path },
    });
  }
}

/**
 * Number of characters at the start of a line that are searched for a level. Programs write the level near the beginning; a matching word
 * further on is not a level.
 */
const LOOKED_AT_CHARACTERS = 120;
const WORD = /(?<![\w-])(?:(TRACE)|(DEBUG)|(INFO|NOTICE)|(WARN|WARNING)|(ERROR|ERR)|(FATAL|CRITICAL|CRIT|EMERG|PANIC))(?![\w-])/;
const LOWER =
  /(?:\[|level=|"level":\s?")(?:(trace)|(debug)|(info|notice)|(warn|warning)|(error|err)|(fatal|critical|crit|emerg|panic))(?![\w-])/;
const LEVELS: readonly LogLevel[] = ["trace", "debug", "info", "warn", "error", "fatal"];

/** Returns the level that a line states: in capitals, in brackets, or as a field. Returns `info` if it states none. */
function levelOfLine(line: string): LogLevel {
  const head = line.slice(0, LOOKED_AT_CHARACTERS);
  const match = WORD.exec(head) ?? LOWER.exec(head);
  const index = match === null ? -1 : match.slice(1).findIndex((word) => word !== undefined);
  return LEVELS[index] ?? "info";
}
