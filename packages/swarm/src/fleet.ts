import { hash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { AGENT_VERSION } from "@roamfleet/agent";
import { establishTrust, httpClient, lockState, type Logger, UsageError } from "@roamfleet/agent/parts";
import { type Clock, seededRandom, type Timer } from "@roamfleet/clock";
import { enrollFleet } from "./enrollment.ts";
import { FleetRobot, type FleetShared } from "./fleet-robot.ts";
import { type StoredRobot, RobotFile } from "./robot-file.ts";
import { ConnectionOpener } from "./connection-opener.ts";
import type { FleetOptions } from "./options.ts";
import { Tally } from "./tally.ts";

const FLAP_TICK_MS = 250;
/** Maximum robots that stop concurrently when a swarm ends. */
const STOP_AT_ONCE = 500;
const RUN_ID_BYTES = 8;

export interface FleetParts {
  clock: Clock;
  log: Logger;
  signal: AbortSignal;
  /** Called before each retry of an enrollment, when the server is unreachable or too busy. */
  waiting: (reason: string, wait_ms: number) => void;
}

/** Thousands of robots in one process. */
export class Fleet {
  readonly tally = new Tally();
  readonly robots: FleetRobot[] = [];
  readonly #options: FleetOptions;
  readonly #parts: FleetParts;
  #file: RobotFile | undefined;
  #flapping: Timer | undefined;
  #unlock: (() => void) | undefined;

  constructor(options: FleetOptions, parts: FleetParts) {
    this.#options = options;
    this.#parts = parts;
  }

  get connected(): number {
    let count = 0;
    for (const robot of this.robots) if (robot.connected) count += 1;
    return count;
  }

  /**
   * Enrolls the robots in order and connects each immediately; resolves when the last is enrolled. Throws UsageError, StateLockedError,
   * EnrollmentRefused, EnrollmentError, UntrustedAuthority.
   */
  async start(): Promise<void> {
    const { clock, log, signal, waiting } = this.#parts;
    const { state_directory, server, seed, robots, name_prefix, labels, key, flap_ms } = this.#options;
    this.#unlock = this.#lock();
    if (state_directory !== undefined) {
      const complain = (err: unknown): void => log.error({ err }, "the robots' state could not be saved; retrying");
      this.#file = await RobotFile.open(state_directory, clock, complain);
    }
    const known = this.#file?.robots ?? new Map<number, StoredRobot>();
    const all_known = Array.from({ length: robots }, (_, i) => i + 1).every((number) => known.has(number));
    if (key === undefined && !all_known)
      throw new UsageError(`${state_directory} contains ${known.size} robots: pass --key KEY to enroll the others`);
    const tls = await this.#trust();
    const http = httpClient(clock, undefined, tls);
    const shared = this.#share(tls.ca, http);
    if (flap_ms !== undefined) this.#flap(flap_ms);
    const enrollment = { server, key: key ?? "", seed, robots, name_prefix, labels, clock, http, signal, waiting };
    await enrollFleet(enrollment, known, (stored) => {
      this.#file?.changed(stored);
      const robot = new FleetRobot(shared, stored);
      this.robots.push(robot);
      this.tally.enrolled += 1;
      robot.start();
    });
  }

  /** Closes the links of all robots gracefully and saves the state of the robots. */
  async stop(): Promise<void> {
    this.#flapping?.cancel();
    for (let from = 0; from < this.robots.length; from += STOP_AT_ONCE)
      await Promise.all(this.robots.slice(from, from + STOP_AT_ONCE).map((robot) => robot.stop()));
    await this.#file?.close();
    this.#unlock?.();
  }

  /** Locks the robots, so that they cannot run twice on one machine: the server would quarantine them as stolen identities. */
  #lock(): () => void {
    const { state_directory, server, key, seed } = this.#options;
    const name = `roamfleet-swarm-${hash("sha256", [server, key, seed].join("\n")).slice(0, 16)}`;
    const directory = state_directory ?? path.join(tmpdir(), name);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const unlock = lockState(directory);
    return () => {
      unlock();
      if (state_directory === undefined) rmSync(directory, { recursive: true, force: true });
    };
  }

  /** Returns the certificate authority that the robots trust. Like an agent, stores it in the state directory, if there is one. */
  async #trust(): Promise<{ ca?: string }> {
    const { server, ca_fingerprint, ca_file, trust_on_first_use, state_directory } = this.#options;
    const directory = state_directory ?? mkdtempSync(path.join(tmpdir(), "roamfleet-swarm-"));
    const config = {
      server,
      state_directory: directory,
      trust_on_first_use,
      ...(ca_fingerprint === undefined ? {} : { ca_fingerprint }),
      ...(ca_file === undefined ? {} : { ca_file }),
    };
    try {
      return await establishTrust({ ...this.#parts, config });
    } finally {
      if (state_directory === undefined) rmSync(directory, { recursive: true, force: true });
    }
  }

  #share(ca: string | undefined, http: FleetShared["http"]): FleetShared {
    const { clock, log } = this.#parts;
    const { server, seed, fail, robots, failure_rate, latency_ms, real_time, share_downloads, samples } = this.#options;
    const failing = failingRobots(robots, fail);
    const random = seededRandom(seed);
    return {
      server,
      ca,
      open_socket: new ConnectionOpener(ca).open,
      clock,
      log,
      http,
      tally: this.tally,
      run_id: Buffer.from(clock.randomBytes(RUN_ID_BYTES)).toString("hex"),
      agent_version: `${AGENT_VERSION}-swarm`,
      real_time,
      samples,
      // Randomize the duration between 50% and 150%, so that robots do not act in lockstep.
      delay: () => latency_ms * (0.5 + random()),
      isUnwell: ({ number, install, first }) =>
        (failing.has(number) && !first) || (failure_rate > 0 && chance(seed, number, install) < failure_rate),
      fetchArtifact: share_downloads ? shareDownloads() : (_artifact, _io, own) => own(),
      keep: (robot) => this.#file?.changed(robot),
    };
  }

  /** Drops the link of each robot at random times. The mean interval is `mean_ms`. */
  #flap(mean_ms: number): void {
    const random = seededRandom(this.#options.seed + 1);
    this.#flapping = this.#parts.clock.every(FLAP_TICK_MS, () => {
      for (const robot of this.robots) if (robot.connected && random() < FLAP_TICK_MS / mean_ms) robot.cut();
    });
  }
}

/**
 * Returns a function that downloads and verifies each artifact for the first robot that needs it, while other robots wait. If that fails,
 * the next robot tries.
 */
function shareDownloads(): FleetShared["fetchArtifact"] {
  const fetched = new Map<string, Promise<void>>();
  return async ({ sha256 }, _io, own) => {
    for (;;) {
      const under_way = fetched.get(sha256);
      if (under_way === undefined) break;
      const done = await under_way.then(
        () => true,
        () => false,
      );
      if (done) return;
      if (fetched.get(sha256) === under_way) fetched.delete(sha256);
    }
    const fetching = own();
    fetched.set(sha256, fetching);
    await fetching;
  };
}

/** Returns a number in [0, 1) that depends only on the arguments, on every machine and in any order of calls. */
export function chance(...words: readonly (string | number)[]): number {
  return Number.parseInt(hash("sha256", words.join("\n")).slice(0, 8), 16) / 2 ** 32;
}

/**
 * Returns the numbers (1 to `robots`) of the `fail` robots that fail. They are evenly spaced, so that any range of robot numbers contains a
 * proportional number of them, plus or minus one.
 */
export function failingRobots(robots: number, fail: number): Set<number> {
  return new Set(Array.from({ length: fail }, (_, i) => Math.floor(((i + 0.5) * robots) / fail) + 1));
}
