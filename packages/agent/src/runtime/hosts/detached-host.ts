import fs from "node:fs";
import path from "node:path";
import type { ChildProcess } from "node:child_process";
import type { Clock } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { Logger } from "pino";
import type { OutputSink } from "../../contract.ts";
import { errorText } from "../../disk/write-atomically.ts";
import { readBootId } from "../../identity/identity.ts";
import { OUTPUT_TAIL_CHARACTERS, STOP_TIMEOUT_SECONDS_DEFAULT } from "../limits.ts";
import type { StatePaths } from "../paths.ts";
import { findProgram, readLines, spawnChild, SYSTEM_PATH } from "../spawn-child.ts";
import { processesWithEnvironment, signalGroup, stopStrays, waitUntil, WRAPPER_VARIABLE } from "../processes.ts";
import { DetachedProgram, storedStatus } from "./detached-program.ts";
import { createOutput } from "./output-directory.ts";
import { OutputReader } from "./output-reader.ts";
import { findRecorded, identify, type ProcessRecord, readRecord, writeRecord } from "./process-record.ts";
import type { Scopes } from "./scope.ts";
import { describeStatus, type ExitStatus, type HostedProgram, parseStatus, type ProgramSpec, type WorkloadHost } from "./workload-host.ts";
import { OUTPUT_FILE_BYTES, WRAPPER_SCRIPT } from "./wrapper-script.ts";

/** Programs that the wrapper needs. Every Debian has them; busybox has them, too. */
const NEEDED = ["setsid", "dd", "wc", "rm", "mv"];
/** Maximum wait for the wrapper of a stopped program to copy its last output. */
const DRAIN_MS = 2_000;

interface DetachedHostOptions {
  paths: StatePaths;
  clock: Clock;
  log: Logger;
  sink: OutputSink;
  /** Directory in memory (tmpfs) for output that is not in the log yet. Absent: the output waits on the disk. */
  memory_directory?: string | undefined;
  /** The units of systemd in which programs run; absent: programs run in the cgroup of the agent, without limits. */
  scopes?: Scopes | undefined;
}

/** Runs each program in a separate session with a shell as its wrapper, in a scope of systemd where the robot has one. */
export class DetachedHost implements WorkloadHost {
  readonly #options: DetachedHostOptions;

  constructor(options: DetachedHostOptions) {
    this.#options = options;
  }

  async start(spec: ProgramSpec): Promise<HostedProgram> {
    const { argv, directory, env, app, user } = spec;
    const { log, scopes } = this.#options;
    const [program = ""] = argv;
    const search = `${env["PATH"] ?? ""}:${SYSTEM_PATH}`;
    for (const needed of NEEDED)
      if (findProgram(needed, search) === undefined) throw new Error(`could not be started: this robot has no program ${needed}`);
    if (fs.existsSync(directory) && findProgram(program, env["PATH"] ?? SYSTEM_PATH, directory) === undefined)
      throw new Error(`could not be started: ${program} does not exist or is not executable`);
    if (scopes === undefined) this.#reportLimits(spec);
    else await scopes.stop(app, spec.stop_timeout_seconds);
    const run = this.#nextRun(app);
    const output = this.#output(app, run);
    let file_bytes = OUTPUT_FILE_BYTES;
    try {
      file_bytes = createOutput(output, this.#options.memory_directory);
    } catch (error) {
      // On a full disk the program runs without its output in the log.
      log.warn({ app, reason: errorText(error) }, "no directory for the output of a workload");
    }
    const settings = [output, String(file_bytes), findProgram("setsid", search)!, String(user?.uid ?? "")];
    const own = ["/bin/sh", "-c", WRAPPER_SCRIPT, "roamfleet", ...settings];
    const [file = "", ...words] = [...(scopes?.command(spec) ?? []), ...own, ...(user?.become ?? []), ...argv];
    const wrapper = spawnChild(file, words, {
      cwd: directory,
      env: { ...env, [WRAPPER_VARIABLE]: "1" },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const exit = Promise.withResolvers<ExitStatus>();
    const pid = await pidFrom(wrapper, exit.resolve);
    failpoint("workload:spawned", "step");
    const record: ProcessRecord = {
      ...identify(pid),
      boot_id: readBootId("/"),
      release_id: spec.release_id,
      run,
      wrapper: identify(wrapper.pid!),
      stop_timeout_seconds: spec.stop_timeout_seconds,
      restarts: spec.restarts,
    };
    try {
      writeRecord(this.#options.paths.process(app), record);
    } catch (error) {
      // Continue: the next agent can also find the process by its environment variables.
      log.warn({ app, err: error }, "could not record the workload's process");
    }
    failpoint("workload:recorded", "step");
    const started = this.#watch(app, record, wrapper);
    void exit.promise.then((status) => started.exited(status));
    log.info({ app, pid }, "workload started");
    return started;
  }

  async adopt(app: string, release_id: string): Promise<{ program: HostedProgram; restarts: number } | undefined> {
    const record = readRecord(this.#options.paths.process(app));
    if (record?.release_id !== release_id || findRecorded(record) === undefined) return undefined;
    this.#options.log.info({ app, pid: record.pid }, "workload adopted");
    return { program: this.#watch(app, record), restarts: record.restarts };
  }

  #watch(app: string, record: ProcessRecord, wrapper?: ChildProcess): DetachedProgram {
    const { paths, clock, log } = this.#options;
    const directory = this.#output(app, record.run);
    return new DetachedProgram({
      app,
      record,
      directory,
      reader: this.#reader(app, record.run),
      clock,
      log,
      ...(wrapper && { wrapper }),
      on_stopped: () => fs.rmSync(paths.process(app), { force: true }),
    });
  }

  /**
   * Ends the app's processes, which are found by their record and by their environment, then the remaining wrappers. A wrapper whose
   * program does not run may be about to start that program.
   */
  async clear(app: string, grace_ms?: number): Promise<void> {
    const { paths, clock, log } = this.#options;
    const variables = { ROAMFLEET_APP: app, ROAMFLEET_CONFIG_DIR: paths.configs };
    const record = readRecord(paths.process(app));
    const recorded = findRecorded(record);
    const inherited = processesWithEnvironment(variables);
    const strays = recorded === undefined ? inherited : [recorded, ...inherited];
    if (strays.length > 0) {
      log.info({ app, pids: strays.map(({ pid }) => pid) }, "stopping processes that an earlier agent left running");
      await stopStrays(strays, { clock, grace_ms: grace_ms ?? 1_000 * (record?.stop_timeout_seconds ?? STOP_TIMEOUT_SECONDS_DEFAULT) });
    }
    const wrappers = () => processesWithEnvironment({ ...variables, [WRAPPER_VARIABLE]: "1" });
    if (!(await waitUntil(clock, DRAIN_MS, () => wrappers().length === 0)))
      for (const { group } of wrappers()) signalGroup(group, "SIGKILL");
    if (record !== undefined && recorded === undefined) this.#reportEnd(app, record);
    fs.rmSync(paths.process(app), { force: true });
    for (const run of this.#runs(app)) await this.#reader(app, run).finish();
  }

  /** Logs the limits of a program that this robot cannot enforce. */
  #reportLimits({ app, limits, restarts }: ProgramSpec): void {
    if (restarts > 0 || Object.values(limits).every((limit) => limit === null)) return;
    const message = `the limits of ${app} are not enforced: this requires systemd, and an agent that runs as a systemd service with root's rights`;
    this.#options.sink.write({ level: "warn", source: "roamfleet", message, fields: { app } });
  }

  /** Logs how a program ended that was running when the last agent stopped. */
  #reportEnd(app: string, { run, boot_id }: ProcessRecord): void {
    const { sink, log } = this.#options;
    if (boot_id !== readBootId("/")) return log.info({ app }, "the workload ended at a restart of the robot");
    const how = describeStatus(storedStatus(this.#output(app, run)));
    sink.write({ level: "warn", source: "roamfleet", message: `${app} ${how} while no agent ran`, fields: { app } });
  }

  #reader(app: string, run: number): OutputReader {
    const { sink, log } = this.#options;
    return new OutputReader({ app, directory: this.#output(app, run), sink, log });
  }

  #output(app: string, run: number): string {
    return path.join(this.#options.paths.output(app), String(run));
  }

  #runs(app: string): number[] {
    try {
      return fs
        .readdirSync(this.#options.paths.output(app))
        .map(Number)
        .filter(Number.isSafeInteger)
        .toSorted((a, b) => a - b);
    } catch {
      return [];
    }
  }

  #nextRun(app: string): number {
    return Math.max(0, readRecord(this.#options.paths.process(app))?.run ?? 0, ...this.#runs(app)) + 1;
  }
}

/**
 * Returns the pid that the wrapper reports, and passes the exit status that it reports later to `on_exit`. Throws if the wrapper could not be
 * started. There is no timeout: the wrapper reports the pid or ends, and the step that started it has a time limit.
 */
function pidFrom(wrapper: ChildProcess, on_exit: (status: ExitStatus) => void): Promise<number> {
  return new Promise((resolve, reject) => {
    // The wrapper itself writes nothing to stderr. Any text is from the commands that start it, such as `systemd-run`.
    let messages = "";
    wrapper.stderr?.on("data", (chunk: Buffer) => (messages = (messages + chunk.toString("utf8")).slice(-OUTPUT_TAIL_CHARACTERS)));
    const fail = (why: string): void => reject(new Error(`could not be started: ${why}`));
    wrapper.once("error", (error) => {
      if (wrapper.pid === undefined) fail(error.message);
    });
    if (wrapper.stdout)
      readLines(wrapper.stdout, (line) => {
        const [, what, value = ""] = /^(pid|exit) (.*)$/.exec(line) ?? [];
        if (what === "pid") resolve(Number(value));
        const status = what === "exit" ? parseStatus(value) : undefined;
        if (status !== undefined) on_exit(status);
      });
    wrapper.once("close", (code, signal) =>
      fail(messages.trim() || `the shell around it ${signal === null ? `exited with ${code}` : `was ended by ${signal}`}`),
    );
  });
}
