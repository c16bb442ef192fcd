import { globSync, type Stats } from "node:fs";
import { sep } from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { fieldsOf, listOf } from "../../json.ts";
import type { LogRateLimiter } from "../log-rate-limiter.ts";
import { FileFollower, type FinishedFile } from "./file-follower.ts";
import type { Positions } from "./positions.ts";
import { statEntry, statOf, PACKED } from "./tail.ts";

const POLL_MS = 500;
/** Interval at which the globs are evaluated again to find new files. */
const FIND_MS = 5_000;
/** Maximum followed files, not counting recently rotated ones. */
export const FILES_MAX = 100;
/**
 * Maximum number of remembered rotated files. They were read completely, and are remembered because they may still match a
 * glob.
 */
const FINISHED_MAX = 500;

interface FilesOptions {
  globs: readonly string[];
  /**
   * The agent's state directory. Files below it are never followed: they change with each log record, which would create
   * further records.
   */
  state_directory: string;
  clock: Clock;
  log: Logger;
  limiter: LogRateLimiter;
  positions: Positions;
  spoolHasRoom: () => boolean;
}

/** Follows the files that match the globs, including files created later. */
export class FileLogs {
  readonly #options: FilesOptions;
  readonly #followers = new Map<string, FileFollower>();
  readonly #refused = new Set<string>();
  #finished: FinishedFile[] = [];
  #timer: { cancel(): void } | undefined;
  #found_at = -Infinity;
  #too_many = false;

  constructor(options: FilesOptions) {
    this.#options = options;
  }

  start(): void {
    const { positions, clock, globs } = this.#options;
    const stored = fieldsOf(positions.stored("files"));
    const files = fieldsOf(stored["files"]);
    this.#finished = listOf(stored["finished"]).filter(isFinished);
    positions.provide("files", () => ({
      files: Object.fromEntries(Array.from(this.#followers, ([path, { states }]) => [path, states])),
      finished: this.#finished,
    }));
    const saved_at_ms = positions.saved_at_ms;
    const paths = this.#attempt(globs.join(" "), () => this.#match()) ?? [];
    // Resume known paths first: a file that matches a glob may be a rotated file of a known path.
    for (const path of Object.keys(files)) {
      if (paths.includes(path) || paths.length < FILES_MAX) this.#resume(path, FileFollower.readStates(files[path]));
    }
    for (const path of paths) if (!this.#followers.has(path)) this.#begin(path, !isNewer(path, saved_at_ms));
    this.#found_at = clock.monotonic();
    // Save the starting positions now. If the agent dies here, it reads all later lines at its next start.
    positions.save();
    this.#timer = clock.every(POLL_MS, () => this.poll());
  }

  get paths(): string[] {
    return [...this.#followers.keys()];
  }

  poll(): void {
    const { clock, positions, globs } = this.#options;
    const now = clock.monotonic();
    let moved = false;
    if (now - this.#found_at >= FIND_MS) {
      this.#found_at = now;
      if (this.#attempt(globs.join(" "), () => this.#find()) === true) positions.save();
    }
    for (const follower of this.#followers.values()) {
      if (this.#attempt(follower.path, () => follower.poll()) === true) moved = true;
      for (const file of follower.finished.splice(0)) this.#finished.push(file);
    }
    if (this.#finished.length > FINISHED_MAX) this.#finished = this.#finished.slice(-FINISHED_MAX);
    if (moved) positions.moved();
  }

  stop(): void {
    this.#timer?.cancel();
    if (this.#timer !== undefined) this.poll();
    this.#timer = undefined;
    this.#options.positions.save();
    for (const follower of this.#followers.values()) follower.close();
  }

  /** Starts to follow new files, and stops following files that no longer exist. Returns whether there are new files. */
  #find(): boolean {
    let found = false;
    for (const path of this.#match()) if (!this.#followers.has(path) && this.#begin(path, false)) found = true;
    for (const [path, follower] of this.#followers) {
      if (follower.tails.length > 0 || statEntry(path) !== "gone") continue;
      this.#followers.delete(path);
    }
    return found;
  }

  #match(): string[] {
    const { globs, state_directory } = this.#options;
    const paths = new Set<string>();
    for (const glob of globs)
      for (const path of globSync(glob)) if (!path.startsWith(state_directory + sep) && !PACKED.test(path)) paths.add(path);
    // A glob may also match the rotated files of a log; leave these out.
    return [...paths].filter((path) => !isRotationOf(path, paths)).toSorted();
  }

  #follower(path: string): FileFollower | undefined {
    const { clock, limiter, spoolHasRoom, log } = this.#options;
    if (this.#followers.size >= FILES_MAX) {
      if (!this.#too_many) log.warn({ path, files_max: FILES_MAX }, "too many log files: this file and further ones are not followed");
      this.#too_many = true;
      return undefined;
    }
    return new FileFollower({
      path,
      clock,
      limiter,
      spoolHasRoom,
      isRead: (file) => this.#isRead(file, path),
      isFollowed: (other) => this.#followers.has(other),
    });
  }

  #resume(path: string, states: ReturnType<typeof FileFollower.readStates>): void {
    const follower = this.#follower(path);
    if (follower === undefined) return;
    this.#followers.set(path, follower);
    this.#attempt(path, () => follower.resume(states));
  }

  #begin(path: string, at_end: boolean): boolean {
    const stat = statOf(path);
    if (stat === undefined || !stat.isFile() || this.#isRead(stat, path)) return false;
    const follower = this.#follower(path);
    if (follower === undefined || !follower.begin(at_end)) {
      if (follower !== undefined) this.#refuse(path);
      return false;
    }
    if (follower.binary) this.#options.log.warn({ path }, "a log file is binary: it is not followed");
    this.#followers.set(path, follower);
    return true;
  }

  /**
   * Runs `work`, which reads one file. If it fails, logs the error once per path and returns undefined, so that other files
   * are not affected.
   */
  #attempt<T>(path: string, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#refuse(path, errorText(error));
      return undefined;
    }
  }

  #refuse(path: string, reason?: string): void {
    if (this.#refused.has(path) || this.#refused.size >= FINISHED_MAX) return;
    this.#refused.add(path);
    this.#options.log.warn({ path, reason }, "a log file cannot be read");
  }

  #isRead({ dev, ino, birthtimeMs }: Stats, path: string): boolean {
    for (const [other, { tails }] of this.#followers)
      if (other !== path && tails.some((tail) => tail.dev === dev && tail.ino === ino)) return true;
    // The inode may have been reused: a file with another birth time was not read yet.
    return this.#finished.some((file) => file.dev === dev && file.ino === ino && file.birth_ms === birthtimeMs);
  }
}

const isRotationOf = (path: string, paths: ReadonlySet<string>): boolean => {
  for (let end = path.length - 1; end > path.lastIndexOf("/") + 1; end -= 1) {
    const next = path.charAt(end);
    if ((next === "." || next === "-") && paths.has(path.slice(0, end))) return true;
  }
  return false;
};

/**
 * Returns whether the file was created after positions were last saved, that is, while no agent ran. Such a file is read
 * from its beginning.
 */
function isNewer(path: string, saved_at_ms: number | undefined): boolean {
  const stat = statOf(path);
  return stat !== undefined && saved_at_ms !== undefined && stat.birthtimeMs > saved_at_ms;
}

function isFinished(value: unknown): value is FinishedFile {
  const { dev, ino, birth_ms } = fieldsOf(value);
  return typeof dev === "number" && typeof ino === "number" && typeof birth_ms === "number";
}
