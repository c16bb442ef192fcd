import fs from "node:fs";
import path from "node:path";
import { failpoint } from "@roamfleet/clock/failpoint";
import { AGENT_APP, debianArch } from "@roamfleet/protocol";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { Clock, Logger } from "../contract.ts";
import { errorCode, errorText, makeDirectory, readJson, renameDurably, syncDirectory, writeJson } from "../disk/write-atomically.ts";
import { fieldsOf } from "../json.ts";
import type { ArtifactStore } from "../runtime/artifact-store.ts";
import type { Executor, RunStatus, StageIo, StartOptions } from "../runtime/executor.ts";
import { failureOf, type FailureReason, StepFailure, throwIfAborted, unlessAborted } from "../runtime/failure.ts";
import type { ProbeResult, Verdict } from "../runtime/health-check.ts";
import type { StatePaths } from "../runtime/paths.ts";
import { stageVersion } from "../runtime/staged-versions.ts";
import { isVersion, type SelfUpdate, Versions } from "./launched.ts";

export interface AgentExecutorOptions extends SelfUpdate {
  paths: StatePaths;
  artifacts: ArtifactStore;
  clock: Clock;
  log: Logger;
  on_step: (name: string) => void;
}

/** Maximum bytes of an unpacked version: about ten times the current size. */
const UNPACKED_BYTES_MAX = 1024 * 1024 * 1024;
/** Maximum time for which a new version is watched before it is confirmed. It is short, so that few reboots happen during a trial. */
const VERIFY_SECONDS_MAX = 600;

/** The record of a staged release: its version, and the version that ran when the release was staged. */
interface Staged {
  version: string;
  from: string;
}

const RECORD = "version.json";

/**
 * Installs releases of kind `agent`: other versions of this program. `start` ends this process, and the launcher starts the new version, in
 * which the same step continues from the journal. A version that does not report to the server does not become current: the launcher
 * starts the old one again, in which the same step fails with the launcher's reason.
 */
export class AgentExecutor implements Executor {
  readonly kind = "agent";
  readonly #options: AgentExecutorOptions;
  readonly #versions: Versions;
  /** For each app, the id of the release that this process is. */
  readonly #running = new Map<string, string>();
  /** For the digest of each artifact that this process has unpacked, the version in it. */
  readonly #fetched = new Map<string, string>();

  constructor(options: AgentExecutorOptions) {
    this.#options = options;
    this.#versions = new Versions(options.launched);
  }

  get available(): boolean {
    return this.#versions.is_writable;
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    if (app !== AGENT_APP)
      throw new StepFailure("rejected_by_robot", `releases of kind agent belong to the app ${AGENT_APP}, not to ${app}`);
    const { version, arch, commit } = fieldsOf(release.manifest);
    if (arch !== undefined) requireArch(release, arch);
    this.#versions.forgetFailed();
    if (isVersion(version) && this.#versions.has(version)) this.#requireSameBuild(version, commit);
    else await this.#fetch(release, io);
    const known = isVersion(version) ? version : this.#unpacked(release);
    await this.#record(app, release, known);
  }

  /** Throws if the version on the disk is another build than the release's. */
  #requireSameBuild(version: string, commit: unknown): void {
    const installed = this.#versions.describe(this.#versions.directory(version))?.commit;
    if (installed === undefined || typeof commit !== "string" || installed === commit) return;
    throw new StepFailure(
      "rejected_by_robot",
      `agent ${version} is installed from commit ${installed}, but the release is from commit ${commit}`,
    );
  }

  /** Returns the version that `#fetch` has unpacked from the release's artifact. */
  #unpacked({ tag, artifact_sha256 }: DesiredRelease): string {
    const version = this.#fetched.get(artifact_sha256);
    if (version === undefined) throw new StepFailure("rejected_by_robot", `release ${tag} was not unpacked`);
    return version;
  }

  async #fetch(release: DesiredRelease, io: StageIo): Promise<void> {
    const { artifacts, on_step } = this.#options;
    const partial = this.#versions.partial(release.artifact_sha256);
    await artifacts.with(release, io, async (archive) => {
      on_step("agent.downloaded");
      try {
        fs.rmSync(partial, { recursive: true, force: true });
        const { unpackBounds, unpackBundle } = await import("../runtime/unpack.ts");
        const { entries, bytes } = unpackBounds(release.artifact_size);
        await unpackBundle(archive, partial, { entries, bytes: Math.min(bytes, UNPACKED_BYTES_MAX) }, io.signal);
        on_step("agent.unpacked");
        const version = this.#checkUnpacked(release, partial);
        failpoint("agent:before-rename", "file");
        if (this.#versions.has(version)) fs.rmSync(partial, { recursive: true, force: true });
        else this.#place(partial, version);
        this.#fetched.set(release.artifact_sha256, version);
      } catch (error) {
        this.#discard(partial);
        throw errorCode(error) === "EROFS"
          ? new StepFailure("rejected_by_robot", `${this.#versions.root} is on a read-only file system`)
          : failureOf(error, "rejected_by_robot");
      }
    });
  }

  #place(partial: string, version: string): void {
    // An incomplete directory of this version may exist, for example after a damaged package.
    fs.rmSync(this.#versions.directory(version), { recursive: true, force: true });
    renameDurably(partial, this.#versions.directory(version));
  }

  #discard(partial: string): void {
    try {
      fs.rmSync(partial, { recursive: true, force: true });
    } catch (error) {
      this.#options.log.warn({ reason: errorText(error) }, "could not delete a partly unpacked agent");
    }
  }

  #checkUnpacked(release: DesiredRelease, directory: string): string {
    const found = this.#versions.describe(directory);
    const refuse = (why: string): StepFailure => new StepFailure("rejected_by_robot", `release ${release.tag} is not an agent: ${why}`);
    if (found === undefined) throw refuse("it has no valid agent.json");
    requireArch(release, found.arch);
    const { version } = fieldsOf(release.manifest);
    if (version !== undefined && version !== found.version)
      throw refuse(`its manifest names version ${JSON.stringify(version)}, its agent.json ${found.version}`);
    for (const name of ["bin/node", "rf-agent.mjs"])
      if (fs.statSync(path.join(directory, name), { throwIfNoEntry: false })?.isFile() !== true) throw refuse(`it has no file ${name}`);
    return found.version;
  }

  /** Records the version of a release. The record is deleted with the release's other files on the robot. */
  async #record(app: string, release: DesiredRelease, version: string): Promise<void> {
    const { paths, launched } = this.#options;
    const before = this.#staged(app, release.id);
    if (before?.version === version) return;
    await stageVersion(paths, app, release.id, async (directory) => {
      makeDirectory(directory);
      writeJson(path.join(directory, RECORD), { version, from: launched.version } satisfies Staged);
      syncDirectory(directory);
    });
  }

  #staged(app: string, release_id: string): Staged | undefined {
    const { version, from } = fieldsOf(readJson(path.join(this.#options.paths.version(app, release_id), RECORD)));
    return isVersion(version) && isVersion(from) ? { version, from } : undefined;
  }

  async start(app: string, release: DesiredRelease, { fresh, signal }: StartOptions): Promise<void> {
    const staged = this.#staged(app, release.id);
    const { failed } = this.#versions;
    if (staged !== undefined && staged.version !== this.#version) {
      if (failed?.version === staged.version) throw new StepFailure(failed.reason as FailureReason, failed.message);
      if (fresh) await this.#replaceBy(staged.version, signal);
    } else if (staged === undefined && fresh) {
      throw new StepFailure("rejected_by_robot", `the files of release ${release.tag} are missing`);
    }
    // Without `fresh`, the running version may differ from the staged one, since a package may have installed a newer version.
    this.#running.set(app, release.id);
  }

  get #version(): string {
    return this.#options.launched.version;
  }

  /** Requests a version and ends this agent. Never returns normally. */
  async #replaceBy(version: string, signal: AbortSignal): Promise<never> {
    const { log, on_step, replace } = this.#options;
    if (!this.#versions.has(version)) throw new StepFailure("rejected_by_robot", `agent ${version} is no longer installed`);
    throwIfAborted(signal);
    try {
      this.#versions.requestTrial(version);
    } catch (error) {
      throw failureOf(error, "rejected_by_robot");
    }
    on_step("agent.requested");
    log.info({ version, from: this.#version }, "this agent ends, so that another version can start");
    replace();
    // The end of the agent aborts this step.
    return wait(signal, new Promise<never>(() => {}));
  }

  running(app: string): string | null {
    return this.#running.get(app) ?? null;
  }

  async verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const staged = this.#staged(app, release.id);
    if (staged?.version !== this.#version)
      return { healthy: false, reason: "rejected_by_robot", message: `agent ${this.#version} was installed instead of ${release.tag}` };
    await this.#confirm(verify_seconds, signal);
    return { healthy: true };
  }

  /** Makes the running version current when the server has acknowledged a report and this time has passed. */
  async #confirm(after_seconds: number, signal: AbortSignal): Promise<void> {
    const { acknowledged, clock, on_step } = this.#options;
    if (this.#versions.current === this.#version) return;
    // There is no timeout here: the launcher ends an agent that does not get this far in time.
    await wait(signal, acknowledged);
    this.#versions.noteReported();
    on_step("agent.reported");
    await clock.sleep(Math.min(after_seconds, VERIFY_SECONDS_MAX) * 1_000, signal);
    throwIfAborted(signal);
    try {
      this.#versions.confirm();
    } catch (error) {
      throw failureOf(error, "rejected_by_robot");
    }
    on_step("agent.confirmed");
  }

  async probe(app: string, release: DesiredRelease): Promise<ProbeResult> {
    const staged = this.#staged(app, release.id);
    return { ok: staged?.version === this.#version, message: `agent ${this.#version} runs` };
  }

  async alive(): Promise<ProbeResult> {
    return { ok: true, message: `agent ${this.#version} runs` };
  }

  /** Returns to the version that ran before this release, whether a release or a package installed it. */
  async restore(app: string, release: DesiredRelease, signal: AbortSignal): Promise<ProbeResult> {
    this.#running.delete(app);
    const staged = this.#staged(app, release.id);
    if (staged?.version === this.#version && staged.from !== this.#version) await this.#replaceBy(staged.from, signal);
    await this.#confirm(0, signal);
    return this.alive();
  }

  /** An agent cannot stop itself: it is replaced or removed. */
  async stop(): Promise<void> {}

  /** Returns to the version from before the first release. If it is no longer installed, the running version stays. */
  async remove(app: string, signal: AbortSignal): Promise<void> {
    const { paths, log } = this.#options;
    if (app !== AGENT_APP) return;
    this.#running.delete(app);
    const directory = paths.versions(app);
    const records = fs.existsSync(directory) ? fs.readdirSync(directory).map((id) => this.#staged(app, id)) : [];
    const before = records.find((staged) => staged?.version === this.#version && staged.from !== this.#version)?.from;
    if (before === undefined) return this.#confirm(0, signal);
    if (this.#versions.has(before)) await this.#replaceBy(before, signal);
    log.warn({ version: before }, "the version of the agent before the first release is no longer installed");
  }

  prune(app: string, keep_release_ids: readonly string[]): void {
    if (app !== AGENT_APP || !this.#versions.is_writable) return;
    try {
      this.#versions.prune(new Set(keep_release_ids.flatMap((id) => this.#staged(app, id)?.version ?? [])));
    } catch (error) {
      this.#options.log.warn({ reason: errorText(error) }, "could not delete old versions of the agent");
    }
  }

  status(app: string): RunStatus {
    return { status: this.#running.has(app) ? "running" : "stopped", restarts: 0 };
  }

  async close(): Promise<void> {}
}

/** Waits for `work`. Throws StepAborted, or StepFailure after a timeout, if the signal is aborted first. */
async function wait<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  try {
    return await unlessAborted(signal, work);
  } catch (error) {
    throwIfAborted(signal);
    throw error;
  }
}

function requireArch({ tag }: DesiredRelease, arch: unknown): void {
  const own = debianArch(process.arch);
  if (arch !== own)
    throw new StepFailure("incompatible", `release ${tag} is for the architecture ${JSON.stringify(arch)}; this robot has ${own}`);
}
