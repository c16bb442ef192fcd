import { hash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Reached } from "@roamfleet/clock/failpoint";
import { promiseSize } from "../harness/promise.ts";
import type { Program } from "../processes/process.ts";

/** Seed that selects a subset of the points. */
const SEED = process.env.ROAMFLEET_CRASH_SEED ?? "1";

/** Runs a program that crashes at one failpoint after the other, and checks each crash in the log of failpoints. */
export class Crasher implements Disposable {
  /** Crashes that the log confirms, in order. */
  readonly kills: Reached[] = [];
  /** Points that the scenario did not reach while they were armed. */
  readonly unreached: string[] = [];
  readonly #directory = mkdtempSync(path.join(tmpdir(), "roamfleet-crash-"));
  readonly #start: (env: Record<string, string>) => Program;
  #queue: string[] = [];
  #armed: string | undefined;
  #program: Program | undefined;
  #watching: Promise<void> | undefined;
  #resting = true;
  #failure: Error | undefined;

  /** `start` starts the program; only one runs at a time. */
  constructor(start: (env: Record<string, string>) => Program) {
    this.#start = start;
  }

  get armed(): string | undefined {
    return this.#armed;
  }

  /** Whether every failpoint of the queue was tried. */
  get done(): boolean {
    return this.#armed === undefined && this.#queue.length === 0;
  }

  /** Starts the program without crashes and lists every failpoint that it reaches; `traced` returns them. */
  trace(): void {
    this.#run("list");
  }

  /** Starts the program without an armed failpoint. */
  plain(): void {
    this.#run(undefined);
  }

  traced(): Reached[] {
    return this.#log();
  }

  /** Starts the program once for each of these failpoints to crash there, and then once without a crash. */
  crashAt(points: readonly string[]): void {
    this.#queue = [...points];
    this.#resting = false;
    this.#next();
  }

  /** Kills the program so that the next failpoint can be armed. Used when the scenario does not reach the armed one. */
  async skip(): Promise<void> {
    if (this.#armed === undefined || this.#program === undefined) return;
    this.unreached.push(this.#armed);
    this.#armed = undefined;
    await this.#program.kill();
  }

  /** Stops the program and its restarts. Throws errors that occurred in the background. */
  async rest(): Promise<void> {
    this.#resting = true;
    if (this.#program?.running === true) await this.#program.kill();
    await this.#watching;
    this.crashes();
  }

  /** Returns how often the program was killed. Throws if it crashed elsewhere than at the armed failpoint. */
  crashes(): number {
    if (this.#failure !== undefined) throw this.#failure;
    return this.kills.length + this.unreached.length;
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #next(): void {
    this.#armed = this.#queue.shift();
    this.#run(this.#armed);
    this.#watching = this.#watch(this.#program!);
  }

  #run(spec: string | undefined): void {
    const log = path.join(this.#directory, "points.log");
    this.#program = this.#start(spec === undefined ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log });
  }

  async #watch(program: Program): Promise<void> {
    const { signal, code } = await program.ended;
    if (this.#resting) return;
    try {
      if (this.#armed !== undefined) this.#confirm(program, `${signal ?? code}`);
      else if (signal !== "SIGKILL") throw new Error(`it ended with ${signal ?? code} without a point:\n${program.output.slice(-4_000)}`);
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      return;
    }
    this.#next();
  }

  #confirm(program: Program, how: string): void {
    const last = this.#log().at(-1);
    const [point] = this.#armed!.split("#", 1);
    if (last === undefined || how !== "SIGKILL" || last.pid !== program.child.pid || last.point !== point)
      throw new Error(`it ended with ${how}, and the log does not say at ${this.#armed}:\n${program.output.slice(-4_000)}`);
    this.kills.push(last);
  }

  #log(): Reached[] {
    const file = path.join(this.#directory, "points.log");
    if (!existsSync(file)) return [];
    return readFileSync(file, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Reached);
  }
}

/**
 * Selects the failpoints of a run: all of them under `npm run promises`, otherwise `count` of them, selected from all stages by the seed.
 */
export function choosePoints(traced: readonly Reached[], count: number): string[] {
  const names = traced.map(({ point }) => point);
  const size = promiseSize({ test: count, full: names.length });
  if (size >= names.length) return names;
  const stages = Map.groupBy(names, (name) => name.slice(name.indexOf(":") + 1).replace(/\d+$/, ""));
  const rank = (text: string): string => hash("sha256", `${SEED}:${text}`);
  const piles = [...stages.values()].map((pile) => pile.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1)));
  const chosen = new Set<string>();
  for (let turn = 0; chosen.size < size; turn += 1) {
    const pile = piles[turn % piles.length]!;
    const name = pile.shift();
    if (name !== undefined) chosen.add(name);
  }
  // Sorted in the order of the scenario, so that one round reaches many of them.
  return names.filter((name) => chosen.has(name));
}
