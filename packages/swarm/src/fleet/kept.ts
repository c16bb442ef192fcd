import { appendFile, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import type { AppState } from "@robofleet/agent/parts";
import type { Clock, Timer } from "@robofleet/clock";

/** All that a simulated robot would have on its disk. */
export interface KeptRobot {
  /** From 1, in the order of enrolment. */
  number: number;
  /** 32 bytes of the Ed25519 key, base64. */
  key: string;
  robot_id: string;
  org_id: string;
  name: string;
  /** Installs begun so far: each is another throw of the dice. */
  installs: number;
  /** Id of the first release of each app. */
  first: Record<string, string>;
  apps: Record<string, AppState>;
}

const FLUSH_MS = 1_000;

/**
 * The robots of a swarm in one file, a line a robot, the last one of a number holds. Written a second at most behind the robots, so
 * a swarm that is killed starts again like robots whose power was cut.
 */
export class RobotFile {
  readonly robots = new Map<number, KeptRobot>();
  readonly #file: string;
  readonly #changed = new Set<KeptRobot>();
  readonly #timer: Timer;
  readonly #complain: (error: unknown) => void;
  #writing: Promise<void> = Promise.resolve();
  #failing = false;

  private constructor(file: string, clock: Clock, complain: (error: unknown) => void) {
    this.#file = file;
    this.#complain = complain;
    this.#timer = clock.every(FLUSH_MS, () => this.flush());
  }

  /**
   * Reads the file in this directory, if it is there, and writes it anew, without what has been overtaken. `complain` is told of a
   * disk that takes nothing, once until it does again.
   */
  static async open(directory: string, clock: Clock, complain: (error: unknown) => void): Promise<RobotFile> {
    const kept = new RobotFile(path.join(directory, "robots.jsonl"), clock, complain);
    const text = await readFile(kept.#file, "utf8").catch(() => "");
    for (const line of text.split("\n")) {
      const robot = parseLine(line);
      if (robot !== undefined) kept.robots.set(robot.number, robot);
    }
    const next = `${kept.#file}.next`;
    await writeFile(next, [...kept.robots.values()].map(lineOf).join(""), { mode: 0o600 });
    await rename(next, kept.#file);
    return kept;
  }

  changed(robot: KeptRobot): void {
    this.robots.set(robot.number, robot);
    this.#changed.add(robot);
  }

  /** Resolves when all that changed until now is written, or cannot be: then it is tried again with the next. */
  flush(): Promise<void> {
    const robots = [...this.#changed];
    const lines = robots.map(lineOf).join("");
    this.#changed.clear();
    if (lines !== "") this.#writing = this.#writing.then(() => this.#append(lines, robots));
    return this.#writing;
  }

  async #append(lines: string, robots: readonly KeptRobot[]): Promise<void> {
    try {
      // What was written of a line that failed must not run into the next.
      await appendFile(this.#file, this.#failing ? `\n${lines}` : lines);
      this.#failing = false;
    } catch (error) {
      for (const robot of robots) this.#changed.add(robot);
      if (!this.#failing) this.#complain(error);
      this.#failing = true;
    }
  }

  async close(): Promise<void> {
    this.#timer.cancel();
    await this.flush();
  }
}

/** What a robot is told of a registry is for the moment only. */
const lineOf = (robot: KeptRobot): string =>
  `${JSON.stringify(robot, (key, value: unknown) => (key === "registry_auth" ? undefined : value))}\n`;

/** Undefined for a torn line. */
function parseLine(line: string): KeptRobot | undefined {
  try {
    const value = JSON.parse(line) as Partial<KeptRobot> | null;
    return typeof value?.number === "number" && typeof value.key === "string" && typeof value.robot_id === "string"
      ? (value as KeptRobot)
      : undefined;
  } catch {
    return undefined;
  }
}
