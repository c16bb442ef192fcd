import { stat } from "node:fs/promises";
import path from "node:path";
import { EXIT } from "../exit-codes.ts";
import { Failure, toFailure, usage } from "../failure.ts";
import { plain } from "../text.ts";
import { type CopyPlace, nameFor } from "./copy-place.ts";
import { download } from "./download.ts";
import { RobotRefused } from "./file-session.ts";
import type { Moved } from "./moved.ts";
import type { SteadySession } from "./steady-session.ts";
import { makeLocalDirectory, readLocalTree, readRobotTree, requireName, type RobotFile, type Tree, type TreeFile } from "./tree.ts";
import { upload } from "./upload.ts";

export interface CopierOptions {
  steady: SteadySession;
  robot_id: string;
  recursive: boolean;
  /** Told how far the whole copy is, in bytes. */
  on_progress: (done: number, total: number) => void;
  note: (text: string) => void;
}

/** What became of a copy; sizes in bytes. */
export interface CopyResult {
  files: number;
  unchanged: number;
  failed: number;
  skipped: number;
  bytes: number;
  moved: number;
  /** Of a single file. */
  sha256: string | undefined;
}

const OWNER_MAY_WRITE = 0o700;

/** One `rf robots cp`, either way. */
export class Copier {
  readonly result: CopyResult = { files: 0, unchanged: 0, failed: 0, skipped: 0, bytes: 0, moved: 0, sha256: undefined };
  readonly #options: CopierOptions;
  #total = 0;
  #done = 0;

  constructor(options: CopierOptions) {
    this.#options = options;
  }

  /** From the robot to this machine. */
  async fetch(source: CopyPlace, target: CopyPlace): Promise<void> {
    const { steady } = this.#options;
    const seen = await steady.run((session) => session.ask({ type: "stat", path: source.path }, "stat"));
    const there = await stat(target.path).catch(() => undefined);
    const into = there?.isDirectory() === true ? path.join(target.path, nameHere(source.path, seen.path)) : target.path;
    if (seen.kind !== "directory") {
      if (there === undefined && target.path.endsWith("/")) throw new Failure(EXIT.error, `${target.path}: there is no such directory`);
      return this.#fetchFiles(seen.path, into, [{ inner: "", size: seen.size, mode: seen.mode, version: seen.version }]);
    }
    this.#requireRecursive(seen.path);
    const tree = await readRobotTree(steady, seen.path);
    await makeLocalDirectory(into, seen.mode | OWNER_MAY_WRITE);
    for (const { inner, mode } of tree.directories) await makeLocalDirectory(path.join(into, inner), mode | OWNER_MAY_WRITE);
    this.#tellSkipped(tree);
    await this.#fetchFiles(seen.path, into, tree.files);
  }

  /** From this machine to the robot. */
  async send(source: CopyPlace, target: CopyPlace): Promise<void> {
    const { steady } = this.#options;
    const own = await stat(source.path);
    const there = await steady.run((session) => session.ask({ type: "stat", path: target.path }, "stat")).catch(absent);
    const name = nameFor(source.path, path.resolve(source.path));
    const into = there?.kind === "directory" ? path.posix.join(there.path, name) : target.path;
    if (!own.isDirectory()) {
      if (there === undefined && target.path.endsWith("/")) throw new Failure(EXIT.not_found, `${target.path}: there is no such directory`);
      return this.#sendFiles(source.path, into, [{ inner: "", size: own.size }]);
    }
    this.#requireRecursive(source.path);
    const tree = await readLocalTree(source.path);
    const make = (directory: string, mode: number): Promise<unknown> =>
      steady.run((session) => session.ask({ type: "mkdir", path: directory, mode: mode | OWNER_MAY_WRITE }, "made"));
    await make(into, own.mode);
    for (const { inner, mode } of tree.directories) await make(path.posix.join(into, inner), mode);
    this.#tellSkipped(tree);
    await this.#sendFiles(source.path, into, tree.files);
  }

  #requireRecursive(directory: string): void {
    if (!this.#options.recursive) throw usage(`${directory} is a directory`, "-r copies directories with what is in them.");
  }

  #fetchFiles(from: string, to: string, files: readonly RobotFile[]): Promise<void> {
    const { steady, robot_id } = this.#options;
    return this.#each(files, (file, on_bytes) =>
      download(steady, { ...file, robot_id, path: path.posix.join(from, file.inner), target: path.join(to, file.inner), on_bytes }),
    );
  }

  #sendFiles(from: string, to: string, files: readonly TreeFile[]): Promise<void> {
    return this.#each(files, ({ inner }, on_bytes) =>
      upload(this.#options.steady, { source: path.join(from, inner), path: inner === "" ? to : path.posix.join(to, inner), on_bytes }),
    );
  }

  /** One file that cannot be copied ends a copy of one file, and is told among many. */
  async #each<F extends TreeFile>(files: readonly F[], copy: (file: F, on_bytes: (done: number) => void) => Promise<Moved>): Promise<void> {
    const { on_progress } = this.#options;
    this.#total = files.reduce((sum, { size }) => sum + size, 0);
    for (const file of files) {
      try {
        this.#count(await copy(file, (done) => on_progress(this.#done + done, this.#total)));
      } catch (error) {
        if (file.inner === "" || !isOfOneFile(error)) throw error;
        this.result.failed += 1;
        this.#options.note(plain(`${file.inner}: ${toFailure(error).message}`));
      }
      this.#done += file.size;
    }
  }

  #count({ bytes, moved, sha256, unchanged }: Moved): void {
    const { result } = this;
    result.files += 1;
    result.unchanged += unchanged ? 1 : 0;
    result.bytes += bytes;
    result.moved += moved;
    result.sha256 = sha256;
  }

  #tellSkipped({ skipped }: Tree<TreeFile>): void {
    this.result.skipped = skipped.length;
    for (const text of skipped) this.#options.note(plain(`skipped ${text}`));
  }
}

/** Where a path says no name, the robot does, and it could say one that leads elsewhere. What is in the root goes right into the directory. */
function nameHere(asked: string, resolved: string): string {
  const name = nameFor(asked, resolved);
  return name === "" && path.posix.normalize(asked) === "/" ? "" : requireName(name);
}

/** A full disk or a lost robot is not better with the next file. */
function isOfOneFile(error: unknown): boolean {
  if (error instanceof RobotRefused) return error.code !== "disk_full";
  const { code } = error as { code?: unknown };
  return error instanceof Failure ? error.exit_code === EXIT.error : typeof code === "string" && code !== "ENOSPC";
}

function absent(error: unknown): undefined {
  if (error instanceof RobotRefused && error.code === "not_found") return undefined;
  throw error;
}
