import fs from "node:fs";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { encodeFileName } from "@roamfleet/protocol";
import { hash } from "node:crypto";
import { fieldsOf } from "../json.ts";
import type { RuntimeOptions } from "./bundle.ts";
import {
  copyAtomically,
  makeDirectory,
  readJson,
  removeDurably,
  renameDurably,
  syncDirectory,
  syncFile,
  writeJson,
} from "../disk/write-atomically.ts";
import { type Executor, inheritedByWorkloads, type RunStatus, type StageIo, type StartOptions } from "./executor.ts";
import type { ProbeResult, Verdict } from "./health-check.ts";
import { failureOf, StepFailure } from "./failure.ts";
import { RELOAD_TIMEOUT_MS } from "./limits.ts";
import { type FileManifest, parseFileManifest } from "./manifest.ts";
import { runCommand } from "./spawn-child.ts";
import { digestOf, stageVersion } from "./staged-versions.ts";
import type { StatePaths } from "./paths.ts";

interface FileOptions extends RuntimeOptions {
  /** Sends a signal to the workload of another app; returns false if it does not run. */
  signal_app: (app: string, signal: NodeJS.Signals) => boolean;
}

const ARTIFACT = "artifact";

/**
 * Installs releases of kind `file`. Each is one file, which the executor replaces atomically. It can notify the program that reads the
 * file.
 */
export class FileExecutor implements Executor {
  readonly kind = "file";
  readonly #options: FileOptions;
  readonly #placed = new Map<string, DesiredRelease>();

  constructor(options: FileOptions) {
    this.#options = options;
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const { paths, artifacts, log } = this.#options;
    this.#destination(app, parseFileManifest(release.manifest));
    const staged = this.#artifact(app, release);
    if (fs.lstatSync(staged, { throwIfNoEntry: false })?.isFile()) {
      if ((await digestOf(staged)) === release.artifact_sha256) return;
      log.error({ app, release: release.tag }, "the staged file was changed on disk; downloading it again");
      // The file is replaced atomically, so the robot always has a complete file, even after a crash or while the server is unreachable.
      return artifacts.with(release, io, async (file) => renameDurably(file, staged));
    }
    await artifacts.with(release, io, (file) =>
      stageVersion(paths, app, release.id, async (directory) => {
        fs.mkdirSync(directory);
        fs.renameSync(file, path.join(directory, ARTIFACT));
        syncDirectory(directory);
      }),
    );
  }

  #destination(app: string, manifest: FileManifest): string {
    const { paths, config } = this.#options;
    if (manifest.path === null) return path.join(paths.files, encodeFileName(app));
    return allowedPath(manifest.path, config.file_directories);
  }

  async start(app: string, release: DesiredRelease, { fresh, signal }: StartOptions): Promise<void> {
    if (!fresh && (await this.probe(app, release)).ok) {
      this.#placed.set(app, release);
      return;
    }
    const manifest = parseFileManifest(release.manifest);
    const { on_step } = this.#options;
    // Stage the release again, which verifies the digest. So only the bytes of the release are installed.
    await this.stage(app, release, { signal, progress: () => {} });
    try {
      const destination = this.#destination(app, manifest);
      const before = this.#readPlaced(app);
      // Record both paths before changing anything. After a crash the agent then recognizes both files as its own.
      const kept = this.#keepOriginal(app, destination, before);
      writePlaced(this.#options.paths, app, { ...kept, files: [...new Set([...kept.files, destination])] });
      on_step("file.written_down");
      await this.#copy(this.#artifact(app, release), destination, manifest.mode);
      on_step("file.put");
      this.#removeInstalled({ ...kept, files: kept.files.filter((file) => file !== destination) });
      writePlaced(this.#options.paths, app, { ...kept, files: [destination] });
    } catch (error) {
      throw failureOf(error, "rejected_by_robot");
    }
    this.#placed.set(app, release);
    await this.#notifyReader(app, manifest);
  }

  #readPlaced(app: string): PlacedFiles {
    const { paths, log } = this.#options;
    return readPlaced(paths, app, () =>
      log.warn({ app }, "the list of installed files is damaged; files that earlier releases installed are not removed"),
    );
  }

  running(app: string): string | null {
    return this.#placed.get(app)?.id ?? null;
  }

  #artifact(app: string, release: DesiredRelease): string {
    return path.join(this.#options.paths.version(app, release.id), ARTIFACT);
  }

  /** Copies a file of the robot before a release replaces it. The copy is restored when the release is removed. */
  #keepOriginal(app: string, destination: string, placed: PlacedFiles): PlacedFiles {
    if (placed.files.includes(destination) || placed.originals[destination] !== undefined || !fs.existsSync(destination)) return placed;
    const copy = path.join(this.#options.paths.app(app), `original.${hash("sha256", destination).slice(0, 16)}`);
    makeDirectory(this.#options.paths.app(app), 0o755);
    // The copy must be durable before the original is replaced, since the copy is then the only one.
    copyAtomically(destination, copy);
    failpoint("file.original:copied", "file");
    return { ...placed, originals: { ...placed.originals, [destination]: copy } };
  }

  async #copy(source: string, destination: string, mode: number): Promise<void> {
    makeDirectory(path.dirname(destination), 0o755);
    const temporary = path.join(path.dirname(destination), `.${path.basename(destination)}.roamfleet-tmp`);
    fs.rmSync(temporary, { force: true });
    await pipeline(fs.createReadStream(source), fs.createWriteStream(temporary, { flags: "wx", mode: 0o600 }));
    syncFile(temporary, mode);
    failpoint("file.put:before-rename", "file");
    renameDurably(temporary, destination);
  }

  #removeInstalled({ files, originals }: PlacedFiles): void {
    for (const file of files) {
      failpoint("file.take-back:before", "file");
      const original = originals[file];
      if (original !== undefined && fs.existsSync(original)) copyAtomically(original, file);
      else if (fs.existsSync(file)) removeDurably(file);
      failpoint("file.take-back:after", "file");
    }
  }

  async #notifyReader(app: string, { reload }: FileManifest): Promise<void> {
    const { clock, log, paths, config } = this.#options;
    if (reload === null) return;
    if ("signal" in reload) {
      if (!this.#options.signal_app(reload.app, reload.signal))
        log.warn({ app, reader: reload.app }, "the app to notify of the new file is not running");
      return;
    }
    const { ok, message } = await runCommand({
      argv: reload.command,
      cwd: paths.app(app),
      env: inheritedByWorkloads(config.workload_environment),
      timeout_ms: RELOAD_TIMEOUT_MS,
      clock,
    });
    if (!ok) throw new StepFailure("health_check_failed", `reload command ${reload.command[0]} ${message}`);
  }

  async verify(app: string, release: DesiredRelease): Promise<Verdict> {
    const { ok, message } = await this.probe(app, release);
    return ok ? { healthy: true } : { healthy: false, reason: "health_check_failed", message };
  }

  async probe(app: string, release: DesiredRelease): Promise<ProbeResult> {
    const destination = this.#destination(app, parseFileManifest(release.manifest));
    try {
      const ok = (await digestOf(destination)) === release.artifact_sha256;
      return { ok, message: ok ? "installed" : `${destination} has other content` };
    } catch {
      return { ok: false, message: `${destination} cannot be read` };
    }
  }

  async alive(app: string): Promise<ProbeResult> {
    const release = this.#placed.get(app);
    return release === undefined ? { ok: false, message: "no file is installed" } : this.probe(app, release);
  }

  async stop(): Promise<void> {}

  async remove(app: string): Promise<void> {
    const { paths } = this.#options;
    this.#placed.delete(app);
    this.#removeInstalled(this.#readPlaced(app));
    // Remove only this file, not the app's directory: it also contains the record of the app's process, which the bundle executor still
    // needs.
    fs.rmSync(placedFile(paths, app), { force: true });
  }

  status(app: string): RunStatus {
    return { status: this.#placed.has(app) ? "running" : "stopped", restarts: 0 };
  }

  async close(): Promise<void> {}
}

/** Record of the files that an app's `file` releases have installed. */
interface PlacedFiles {
  files: string[];
  /** Copies of the robot's own files that were replaced. The key is the original path. */
  originals: Record<string, string>;
}

const NOTHING: PlacedFiles = { files: [], originals: {} };

const placedFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "placed.json");

/**
 * Reads the record of installed files. Returns an empty record and calls `damaged` if it is damaged: the agent deletes the files that the
 * record names, and with a single changed bit it could name another file.
 */
function readPlaced(paths: StatePaths, app: string, damaged: () => void): PlacedFiles {
  const value = readJson(placedFile(paths, app), damaged);
  if (value === undefined) return NOTHING;
  if (isPlaced(value)) return value;
  damaged();
  return NOTHING;
}

function writePlaced(paths: StatePaths, app: string, placed: PlacedFiles): void {
  makeDirectory(paths.app(app), 0o755);
  writeJson(placedFile(paths, app), placed);
}

function isPlaced(value: unknown): value is PlacedFiles {
  const { files, originals } = fieldsOf(value);
  return Array.isArray(files) && typeof originals === "object" && originals !== null;
}

const isBelow = (file: string, directory: string): boolean =>
  file.startsWith(directory.endsWith(path.sep) ? directory : directory + path.sep);

/**
 * Returns the path, with its directory's symlinks resolved, if it is below one of `directories`. The robot decides which directories are
 * allowed, since the server must not choose any path to write. Throws StepFailure `rejected_by_robot`.
 */
function allowedPath(file: string, directories: readonly string[]): string {
  const wanted = path.resolve(file);
  if (directories.length === 0)
    throw new StepFailure(
      "rejected_by_robot",
      `manifest: path ${wanted}: this robot allows no files outside of its state directory (--allow-files)`,
    );
  const real = path.join(realAncestor(path.dirname(wanted)), path.basename(wanted));
  for (const directory of directories) {
    const root = fs.existsSync(directory) ? fs.realpathSync(directory) : path.resolve(directory);
    if (!isBelow(real, root)) continue;
    if (fs.statSync(real, { throwIfNoEntry: false })?.isDirectory())
      throw new StepFailure("rejected_by_robot", `manifest: path ${wanted} is a directory`);
    return real;
  }
  throw new StepFailure("rejected_by_robot", `manifest: path ${wanted} is not below a directory that this robot allows`);
}

/** Resolves the symlinks of a directory. Its last components need not exist yet. */
function realAncestor(directory: string): string {
  if (fs.existsSync(directory)) return fs.realpathSync(directory);
  const parent = path.dirname(directory);
  return parent === directory ? directory : path.join(realAncestor(parent), path.basename(directory));
}
