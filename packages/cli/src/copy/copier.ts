import { stat } from "node:fs/promises";
import path from "node:path";
import { EXIT } from "../exit-codes.ts";
import { Failure, toFailure, usage } from "../failure.ts";
import { plain } from "../text.ts";
import { type CopyPlace, nameFor } from "./copy-place.ts";
import { download } from "./download.ts";
import { type FileResult, RobotRefused, type ReconnectingSession } from "./file-session.ts";
import { makeLocalDirectory, readLocalTree, readRobotTree, requireName, type RobotFile, type Tree, type TreeFile } from "./tree.ts";
import { upload } from "./upload.ts";

export interface CopierOptions {
  connection: ReconnectingSession;
  robot_id: string;
  recursive: boolean;
  /** Called with the progress of the whole copy, in bytes. */
  on_progress: (done: number, total: number) => void;
  note: (text: string) => void;
}

/** The result of a copy; sizes in bytes. */
export interface CopyResult {
  files: number;
  unchanged: number;
  failed: number;
  skipped: number;
  bytes: number;
  moved: number;
  /** SHA-256 of the last copied file. It is shown only if a single file was copied. */
  sha256: string | undefined;
}

const OWNER_MAY_WRITE = 0o700;

/** Runs one `rf robots cp`: copies files from or to a robot. */
export class Copier {
  readonly result: CopyResult = { files: 0, unchanged: 0, failed: 0, skipped: 0, bytes: 0, moved: 0, sha256: undefined };
  readonly #options: CopierOptions;
  #total = 0;
  #done = 0;

  constructor(options: CopierOptions) {
    this.#options = options;
  }

  /** Copies from the robot to this machine. */
  async fetch(source: CopyPlace, target: CopyPlace): Promise<void> {
    const { connection } = this.#options;
    const seen = await connection.run((session) => session.ask({ type: "stat", path: source.path }, "stat"));
    const there = await stat(target.path).catch(() => undefined);
    const into = there?.isDirectory() === true ? path.join(target.path, nameHere(source.path, seen.path)) : target.path;
    if (seen.kind !== "directory") {
      if (there === undefined && target.path.endsWith("/")) throw new Failure(EXIT.error, `${target.path}: directory does not exist`);
      return this.#fetchFiles(seen.path, into, [{ inner: "", size: seen.size, mode: seen.mode, version: seen.version }]);
    }
    this.#requireRecursive(seen.path);
    const tree = await readRobotTree(connection, seen.path);
    await makeLocalDirectory(into, seen.mode | OWNER_MAY_WRITE);
    for (const { inner, mode } of tree.directories) await makeLocalDirectory(path.join(into, inner), mode | OWNER_MAY_WRITE);
    this.#noteSkipped(tree);
    await this.#fetchFiles(seen.path, into, tree.files);
  }

  /** Copies from this machine to the robot. */
  async send(source: CopyPlace, target: CopyPlace): Promise<void> {
    const { connection } = this.#options;
    const own = await stat(source.path);
    const there = await connection.run((session) => session.ask({ type: "stat", path: target.path }, "stat")).catch(absent);
    const name = nameFor(source.path, path.resolve(source.path));
    const into = there?.kind === "directory" ? path.posix.join(there.path, name) : target.path;
    if (!own.isDirectory()) {
      if (there === undefined && target.path.endsWith("/")) throw new Failure(EXIT.not_found, `${target.path}: directory does not exist`);
      return this.#sendFiles(source.path, into, [{ inner: "", size: own.size }]);
    }
    this.#requireRecursive(source.path);
    const tree = await readLocalTree(source.path);
    const make = (directory: string, mode: number): Promise<unknown> =>
      connection.run((session) => session.ask({ type: "mkdir", path: directory, mode: mode | OWNER_MAY_WRITE }, "made"));
    await make(into, own.mode);
    for (const { inner, mode } of tree.directories) await make(path.posix.join(into, inner), mode);
    this.#noteSkipped(tree);
    await this.#sendFiles(source.path, into, tree.files);
  }

  #requireRecursive(directory: string): void {
    if (!this.#options.recursive) throw usage(`${directory} is a directory`, "Use -r to copy directories recursively.");
  }

  #fetchFiles(from: string, to: string, files: readonly RobotFile[]): Promise<void> {
    const { connection, robot_id } = this.#options;
    return this.#each(files, (file, on_bytes) =>
      download(connection, { ...file, robot_id, path: path.posix.join(from, file.inner), target: path.join(to, file.inner), on_bytes }),
    );
  }

  #sendFiles(from: string, to: string, files: readonly TreeFile[]): Promise<void> {
    return this.#each(files, ({ inner }, on_bytes) =>
      upload(this.#options.connection, { source: path.join(from, inner), path: inner === "" ? to : path.posix.join(to, inner), on_bytes }),
    );
  }

  /**
   * Copies the files. In a directory, an error that concerns only one file is reported and the copy continues. Any other error ends the
   * copy.
   */
  async #each<F extends TreeFile>(
    files: readonly F[],
    copy: (file: F, on_bytes: (done: number) => void) => Promise<FileResult>,
  ): Promise<void> {
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

  #count({ bytes, moved, sha256, unchanged }: FileResult): void {
    const { result } = this;
    result.files += 1;
    result.unchanged += unchanged ? 1 : 0;
    result.bytes += bytes;
    result.moved += moved;
    result.sha256 = sha256;
  }

  #noteSkipped({ skipped }: Tree<TreeFile>): void {
    this.result.skipped = skipped.length;
    for (const text of skipped) this.#options.note(plain(`skipped ${text}`));
  }
}

/**
 * Returns the name to create in the target directory. A path such as `.` has no name; the copy gets the name that the robot resolved.
 * Throws if that name would lead outside the target directory. Returns "" for `/`, whose contents go directly into the target directory.
 */
function nameHere(asked: string, resolved: string): string {
  const name = nameFor(asked, resolved);
  return name === "" && path.posix.normalize(asked) === "/" ? "" : requireName(name);
}

/**
 * Returns whether the error concerns only one file. Other errors, such as a full disk or a lost robot, would make the next file fail too.
 */
function isOfOneFile(error: unknown): boolean {
  if (error instanceof RobotRefused) return error.code !== "disk_full";
  const { code } = error as { code?: unknown };
  return error instanceof Failure ? error.exit_code === EXIT.error : typeof code === "string" && code !== "ENOSPC";
}

function absent(error: unknown): undefined {
  if (error instanceof RobotRefused && error.code === "not_found") return undefined;
  throw error;
}
