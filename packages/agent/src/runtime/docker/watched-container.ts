import type { Readable } from "node:stream";
import type { ContainerInspectInfo } from "dockerode";
import type { Clock } from "@roamfleet/clock";
import type { Logger, LogSink } from "../../contract.ts";
import { OUTPUT_TAIL_CHARACTERS, type Timing } from "../limits.ts";
import { probe, type ProbeResult } from "../health-check.ts";
import { ContainerLog, nanoseconds } from "./container-log.ts";
import type { MetricsPlace } from "../manifest.ts";
import type { ContainerSpec } from "./container-manifest.ts";
import type { Containers } from "./containers.ts";
import { type Engine, engineMessage } from "./engine.ts";
import { StepAborted } from "../failure.ts";
import { engineOutput } from "../byte-reader.ts";
import { errorText } from "../../disk/write-atomically.ts";

interface WatchedContainerOptions {
  app: string;
  container_id: string;
  spec: ContainerSpec;
  read_until: bigint;
  containers: Containers;
  engine: Engine;
  clock: Clock;
  timing: Timing;
  log: Logger;
  logs: LogSink;
}

type State = ContainerInspectInfo["State"];

/** Observes a container: its state, its health and its output. The engine, not the agent, keeps it running. */
export class WatchedContainer {
  /** Number of restarts since the container was created, as counted by the engine. */
  restarts = 0;
  /** Number of exits since the agent began to watch the container. */
  exits = 0;
  last_exit: string | null = null;
  healthy = true;
  readonly #options: WatchedContainerOptions;
  readonly #commands: ContainerCommands;
  readonly #stop = new AbortController();
  #state: State | undefined;
  #network: ContainerInspectInfo | undefined;
  #log: ContainerLog | undefined;
  #matches: ((line: string) => boolean) | undefined;
  #matched_at = -1n;

  constructor(options: WatchedContainerOptions) {
    this.#options = options;
    this.#commands = new ContainerCommands(options);
  }

  get container_id(): string {
    return this.#options.container_id;
  }

  /** Pid of the container's main process; undefined while the container is down. */
  get pid(): number | undefined {
    return this.alive ? this.#state?.Pid : undefined;
  }

  get alive(): boolean {
    return this.#state?.Running === true && !this.#state.Restarting && !this.#state.Paused;
  }

  /** True if the container exited and the engine does not restart it. */
  get down(): boolean {
    return this.#state?.Status === "exited" || this.#state?.Status === "dead";
  }

  get gone(): boolean {
    return this.#state === undefined && this.last_exit !== null;
  }

  get read_until(): bigint {
    return this.#log?.read_until ?? this.#options.read_until;
  }

  /** Reads the container's state and begins to follow its output. */
  async start(signal: AbortSignal): Promise<void> {
    const { spec, containers, container_id } = this.#options;
    if (spec.health !== null && "log" in spec.health) {
      // Use RE2 for the release's pattern. It takes time linear in the length of the line for any pattern, so the pattern cannot block the
      // agent.
      const { RE2JS } = await import("re2js");
      const pattern = RE2JS.compile(spec.health.log.pattern);
      this.#matches = (line) => pattern.matcher(line).find();
    }
    const info = await containers.inspect(container_id, { signal });
    this.restarts = info?.RestartCount ?? 0;
    this.#take(info);
    const look_from = this.#matches === undefined ? undefined : nanoseconds(info?.State.StartedAt ?? "");
    this.#log = new ContainerLog({
      ...this.#options,
      look_from: look_from ?? this.#options.read_until,
      on_line: (line, at) => {
        // podman's times are whole seconds: use the end of that second.
        if (this.#matches?.(line)) this.#matched_at = at % 1_000_000_000n === 0n ? at + 999_999_999n : at;
      },
    });
    this.#log.start();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#log?.close();
  }

  /** Queries the container's state. Throws StepFailure if the engine stays unreachable. */
  async refresh(wait_ms?: number): Promise<void> {
    const { containers, container_id } = this.#options;
    const wait = wait_ms === undefined ? {} : { wait_ms };
    this.#take(await containers.inspect(container_id, { signal: this.#stop.signal, ...wait }));
  }

  #take(info: ContainerInspectInfo | undefined): void {
    const before = this.#state;
    if (info === undefined) {
      if (before !== undefined) this.exits += 1;
      this.last_exit = "was removed from the engine";
      this.#state = undefined;
      return;
    }
    const { RestartCount: restarts, State: state } = info;
    // The engine counts a restart when the container has exited and the wait before the restart begins. So each counted restart is an exit,
    // and only an exit without a restart must be added.
    const ended = state.Status === "exited" || state.Status === "dead";
    const ended_before = before?.Status === "exited" || before?.Status === "dead";
    const new_exits = Math.max(0, restarts - this.restarts) + (ended && !ended_before && restarts === this.restarts ? 1 : 0);
    this.restarts = restarts;
    if (new_exits > 0) this.#reportExit(state, new_exits, ended);
    this.#state = state;
    this.#network = info;
  }

  #reportExit(state: State, new_exits: number, ended: boolean): void {
    const { app, log, logs } = this.#options;
    this.exits += new_exits;
    const out_of_memory = state.OOMKilled ? ", out of memory" : "";
    // Once the container runs again, the engine no longer shows the exit code of the previous run.
    this.last_exit = state.Running && !state.Restarting ? "exited" : `exited with ${state.ExitCode}${out_of_memory}`;
    if (state.Error) this.last_exit = `could not be started: ${state.Error}`;
    log.warn({ app, how: this.last_exit, restarts: this.restarts }, "container exited");
    const then = ended ? "it stays stopped" : "the engine starts it again";
    logs.write({
      level: "warn",
      source: "roamfleet",
      message: `${app} ${this.last_exit}; ${then}`,
      fields: { app, restarts: this.restarts },
    });
  }

  async check(wait_ms?: number): Promise<ProbeResult> {
    await this.refresh(wait_ms);
    if (!this.alive) return { ok: false, message: `the container ${this.last_exit ?? `is ${this.#state?.Status ?? "gone"}`}` };
    const { spec, clock, timing } = this.#options;
    const { health } = spec;
    if (health === null) return { ok: true, message: "running" };
    if ("command" in health) return this.#commands.run(health.command, timing.probe_timeout_ms, this.#stop.signal, "health command");
    if ("log" in health) return this.#logResult(health.log.pattern);
    const check = {
      http: { url: "url" in health.http ? health.http.url : this.#url(health.http), expect_status: health.http.expect_status },
    };
    return probe(check, { directory: "/", env: {}, timeout_ms: timing.probe_timeout_ms, clock });
  }

  #logResult(pattern: string): ProbeResult {
    const started_at = nanoseconds(this.#state?.StartedAt ?? "") ?? 0n;
    const ok = this.#matched_at >= started_at;
    return { ok, message: `${ok ? "a line" : "no line"} of its output matches ${pattern}` };
  }

  /** Runs a command in the container: the manifest's reload command after a config change. */
  run(argv: string[], timeout_ms: number): Promise<ProbeResult> {
    return this.#commands.run(argv, timeout_ms, this.#stop.signal, "reload command");
  }

  /** The address at which the program serves metrics; undefined: its manifest names none. */
  get metrics_url(): string | undefined {
    const { metrics } = this.#options.spec;
    return metrics === null ? undefined : this.#url(metrics);
  }

  /** Returns the address of a port of the container on the robot. */
  #url(place: MetricsPlace): string {
    const settings = this.#network?.NetworkSettings;
    if (!this.#options.spec.host_network && settings !== undefined) {
      const published = settings.Ports?.[`${place.port}/tcp`]?.[0];
      if (published) {
        const address =
          published.HostIp === "" || published.HostIp === "0.0.0.0" || published.HostIp === "::" ? "127.0.0.1" : published.HostIp;
        return `http://${address}:${published.HostPort}${place.path}`;
      }
      const own = Object.values(settings.Networks ?? {}).find(({ IPAddress }) => IPAddress)?.IPAddress;
      if (own) return `http://${own}:${place.port}${place.path}`;
    }
    return `http://127.0.0.1:${place.port}${place.path}`;
  }
}

interface Options {
  container_id: string;
  engine: Engine;
  clock: Clock;
}

const POLL_FIRST_MS = 20;
const POLL_LAST_MS = 200;
/** Maximum wait for the rest of a command's output after the command has ended. */
const OUTPUT_END_MS = 500;

/**
 * Runs commands in a container, one at a time. While an earlier command hangs, no further one is started, since an engine cannot end a
 * command.
 */
class ContainerCommands {
  readonly #options: Options;
  #busy: string | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Runs a command. Returns within the timeout, and throws only if it is aborted. */
  async run(argv: string[], timeout_ms: number, signal: AbortSignal, what: string): Promise<ProbeResult> {
    const name = `${what} ${argv[0]}`;
    try {
      if (this.#busy !== undefined && (await this.#runs(this.#busy, signal)))
        return { ok: false, message: `${name} is still running from an earlier check` };
      return await this.#runOnce(argv, timeout_ms, signal, name);
    } catch (error) {
      if (signal.aborted) throw new StepAborted();
      return { ok: false, message: `${name}: ${engineMessage(error) || errorText(error)}` };
    }
  }

  async #runOnce(argv: string[], timeout_ms: number, signal: AbortSignal, name: string): Promise<ProbeResult> {
    const { engine, container_id, clock } = this.#options;
    const options = { what: "run a command in a container", signal, wait_ms: 0 };
    const exec = await engine.use(options, (docker, abortSignal) =>
      docker.getContainer(container_id).exec({ Cmd: argv, AttachStdout: true, AttachStderr: true, abortSignal }),
    );
    this.#busy = exec.id;
    const output: Readable = await engine.use(options, async (_, abortSignal) => {
      const stream = await exec.start({ Detach: false });
      if (abortSignal.aborted) stream.destroy();
      return stream;
    });
    let tail = "";
    const read = async (): Promise<void> => {
      for await (const { bytes } of engineOutput(output))
        tail = (tail + Buffer.from(bytes).toString("utf8")).slice(-OUTPUT_TAIL_CHARACTERS);
    };
    const ended = read().catch(() => {});
    const deadline = clock.monotonic() + timeout_ms;
    try {
      // Poll instead of waiting for the end of the stream, since background processes of the command keep the stream open.
      for (let poll_ms = POLL_FIRST_MS; ; poll_ms = Math.min(POLL_LAST_MS, poll_ms * 2)) {
        const { Running, ExitCode } = await engine.use(options, () => exec.inspect());
        if (!Running && ExitCode !== null) {
          this.#busy = undefined;
          if (ExitCode !== 0) await Promise.race([ended, clock.sleep(OUTPUT_END_MS, signal)]);
          const words = tail.trim();
          return { ok: ExitCode === 0, message: `${name} exited with ${ExitCode}${words === "" || ExitCode === 0 ? "" : `: ${words}`}` };
        }
        if (clock.monotonic() >= deadline) return { ok: false, message: `${name} did not end within ${timeout_ms} ms` };
        await clock.sleep(poll_ms, signal);
      }
    } finally {
      output.destroy();
    }
  }

  async #runs(exec_id: string, signal: AbortSignal): Promise<boolean> {
    const { engine } = this.#options;
    try {
      const { Running } = await engine.use({ what: "describe a command", signal, wait_ms: 0 }, (docker) =>
        docker.getExec(exec_id).inspect(),
      );
      return Running;
    } catch {
      // The engine forgets a command when its container is restarted. Then the command has ended, too.
      return false;
    }
  }
}

interface RestartOptions {
  app: string;
  engine: Engine;
  container: WatchedContainer;
  containers: Containers;
  clock: Clock;
  log: Logger;
  signal: AbortSignal;
}

const TRIES_MAX = 3;

/** Text for the message of a check if the engine restarted during each attempt. */
export const EVERY_TIME = `; the container engine restarted during each of ${TRIES_MAX} checks`;

/**
 * Runs a check of a container. Repeats a check that fails while the engine restarts, since a restart ends all containers. Returns the last
 * result, and whether the engine also ended during that check. Throws StepFailure (`timeout`) if the engine does not return.
 */
export async function checkAcrossRestarts<R>(
  { app, engine, container, containers, clock, log, signal }: RestartOptions,
  check: () => Promise<R>,
  passed: (result: R) => boolean,
): Promise<{ result: R; interrupted: boolean }> {
  for (let tries = 1; ; tries += 1) {
    const { breaks } = engine;
    using run = engine.watchRun();
    const result = await check();
    if (passed(result)) return { result, interrupted: false };
    // The refresh waits while the engine is unreachable. The short sleep lets Node process the end of the watched stream, which arrived
    // before the response.
    await container.refresh();
    await clock.sleep(1, signal);
    const interrupted = run.ended || engine.breaks !== breaks;
    if (!interrupted || tries === TRIES_MAX) return { result, interrupted };
    log.warn({ app, tries }, "the container engine restarted during a check of the release; repeating the check");
    if (container.down) await containers.start(container.container_id, signal);
    container.exits = 0;
  }
}
