import type { ContainerInspectInfo } from "dockerode";
import type { Clock } from "@roamfleet/clock";
import type { Logger, LogSink } from "../../contract.ts";
import type { Timing } from "../limits.ts";
import { probe, type ProbeResult } from "../probe.ts";
import { ContainerLog, nanoseconds } from "./container-log.ts";
import type { ContainerHealthCheck, ContainerSpec } from "./container-manifest.ts";
import { type Containers } from "./containers.ts";
import type { Engine } from "./engine.ts";
import { ContainerCommands } from "./run-inside.ts";

export interface WatchedContainerOptions {
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

/** The agent's view of a container: its state, its health and its output. The engine keeps it running. */
export class WatchedContainer {
  /** The engine's count of restarts since the container was created. */
  restarts = 0;
  /** How often it exited since it is watched. */
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

  /** undefined while it is down. */
  get pid(): number | undefined {
    return this.alive ? this.#state?.Pid : undefined;
  }

  get alive(): boolean {
    return this.#state?.Running === true && !this.#state.Restarting && !this.#state.Paused;
  }

  /** It exited, and the engine does not restart it. */
  get down(): boolean {
    return this.#state?.Status === "exited" || this.#state?.Status === "dead";
  }

  /** It was removed from the engine. */
  get gone(): boolean {
    return this.#state === undefined && this.last_exit !== null;
  }

  get read_until(): bigint {
    return this.#log?.read_until ?? this.#options.read_until;
  }

  /** Reads its state, and its output from now on. */
  async start(signal: AbortSignal): Promise<void> {
    const { spec, containers, container_id } = this.#options;
    if (spec.health !== null && "log" in spec.health) {
      // Takes time linear in the line's length for any pattern: a pattern of a release must not block the agent.
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

  /** Queries its state. Throws StepFailure if the engine does not return. */
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
    // The engine counts a restart when it begins to wait for it; an exit without a restart is counted here.
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
    // While it runs again, the engine shows no exit code of the previous run.
    this.last_exit = state.Running && !state.Restarting ? "exited" : `exited with ${state.ExitCode}${out_of_memory}`;
    if (state.Error) this.last_exit = `could not be started: ${state.Error}`;
    log.warn({ app, how: this.last_exit, restarts: this.restarts }, "container exited");
    const then = ended ? "it stays down" : "the engine starts it again";
    logs.write({
      level: "warn",
      source: "roamfleet",
      message: `${app} ${this.last_exit}; ${then}`,
      fields: { app, restarts: this.restarts },
    });
  }

  /** Returns whether it runs and is healthy. */
  async check(wait_ms?: number): Promise<ProbeResult> {
    await this.refresh(wait_ms);
    if (!this.alive) return { ok: false, message: `the container ${this.last_exit ?? `is ${this.#state?.Status ?? "gone"}`}` };
    const { spec, clock, timing } = this.#options;
    const { health } = spec;
    if (health === null) return { ok: true, message: "it is up" };
    if ("command" in health) return this.#commands.run(health.command, timing.probe_timeout_ms, this.#stop.signal, "health command");
    if ("log" in health) return this.#logResult(health.log.pattern);
    const check = { http: { url: this.#url(health.http), expect_status: health.http.expect_status } };
    return probe(check, { directory: "/", env: {}, timeout_ms: timing.probe_timeout_ms, clock });
  }

  #logResult(pattern: string): ProbeResult {
    const started_at = nanoseconds(this.#state?.StartedAt ?? "") ?? 0n;
    const ok = this.#matched_at >= started_at;
    return { ok, message: `${ok ? "a line" : "no line"} of its output matches ${pattern}` };
  }

  /** Runs a command in it: the manifest's reload command after a config change. */
  run(argv: string[], timeout_ms: number): Promise<ProbeResult> {
    return this.#commands.run(argv, timeout_ms, this.#stop.signal, "reload command");
  }

  #url(http: Extract<ContainerHealthCheck, { http: unknown }>["http"]): string {
    if ("url" in http) return http.url;
    const settings = this.#network?.NetworkSettings;
    if (!this.#options.spec.host_network && settings !== undefined) {
      const published = settings.Ports?.[`${http.port}/tcp`]?.[0];
      if (published) {
        const address =
          published.HostIp === "" || published.HostIp === "0.0.0.0" || published.HostIp === "::" ? "127.0.0.1" : published.HostIp;
        return `http://${address}:${published.HostPort}${http.path}`;
      }
      const own = Object.values(settings.Networks ?? {}).find(({ IPAddress }) => IPAddress)?.IPAddress;
      if (own) return `http://${own}:${http.port}${http.path}`;
    }
    return `http://127.0.0.1:${http.port}${http.path}`;
  }
}
