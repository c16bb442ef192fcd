import { createHmac, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { appendFile, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { type AppState, parseObject, type RobotKey } from "@roamfleet/agent/parts";
import type { Clock, Timer } from "@roamfleet/clock";

/** Everything that a simulated robot would store on its disk. */
export interface StoredRobot {
  /** Number of the robot, from 1, in enrollment order. */
  number: number;
  /** The robot's private Ed25519 key: base64 of 32 bytes. */
  key: string;
  robot_id: string;
  org_id: string;
  name: string;
  /** Number of installs that the robot has started. It seeds the random outcome of the next one. */
  installs: number;
  /** Id of the first release of each app. */
  first: Record<string, string>;
  apps: Record<string, AppState>;
}

const FLUSH_MS = 1_000;

/**
 * Stores the robots of a swarm in one file. Each line is the state of one robot, and replaces the robot's earlier lines. Changes are written
 * every second, so the robots of a killed swarm restart with a slightly old state, as after a power failure.
 */
export class RobotFile {
  readonly robots = new Map<number, StoredRobot>();
  readonly #file: string;
  readonly #changed = new Set<StoredRobot>();
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
   * Reads the file in this directory, if it exists, and rewrites it without outdated lines. `complain` is called at the first failed
   * write, and again only after a successful one.
   */
  static async open(directory: string, clock: Clock, complain: (error: unknown) => void): Promise<RobotFile> {
    const opened = new RobotFile(path.join(directory, "robots.jsonl"), clock, complain);
    const text = await readFile(opened.#file, "utf8").catch(() => "");
    for (const line of text.split("\n")) {
      const robot = parseLine(line);
      if (robot !== undefined) opened.robots.set(robot.number, robot);
    }
    const next = `${opened.#file}.next`;
    await writeFile(next, [...opened.robots.values()].map(lineOf).join(""), { mode: 0o600 });
    await rename(next, opened.#file);
    return opened;
  }

  changed(robot: StoredRobot): void {
    this.robots.set(robot.number, robot);
    this.#changed.add(robot);
  }

  /** Resolves when all changes so far were written, or writing them has failed. Failed changes are retried with the next write. */
  flush(): Promise<void> {
    const robots = [...this.#changed];
    const lines = robots.map(lineOf).join("");
    this.#changed.clear();
    if (lines !== "") this.#writing = this.#writing.then(() => this.#append(lines, robots));
    return this.#writing;
  }

  async #append(lines: string, robots: readonly StoredRobot[]): Promise<void> {
    try {
      // After a failed write, start a new line, because that write may have left a partial one.
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

/** Formats a robot's state as one line. Omits registry credentials, because they are temporary. */
const lineOf = (robot: StoredRobot): string =>
  `${JSON.stringify(robot, (key, value: unknown) => (key === "registry_auth" ? undefined : value))}\n`;

/** Parses a line. Returns undefined if it is incomplete. */
function parseLine(line: string): StoredRobot | undefined {
  const value = parseObject(line) as Partial<StoredRobot> | undefined;
  return typeof value?.number === "number" && typeof value.key === "string" && typeof value.robot_id === "string"
    ? (value as StoredRobot)
    : undefined;
}

/** An Ed25519 key in PKCS #8 format is this prefix and the 32 bytes of the key. */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const RAW_KEY_BYTES = 32;

/**
 * Derives the 32 bytes of a robot's key from the seed, the robot's number and the enrollment key. So the next run uses the same robots, and
 * their keys cannot be derived without the enrollment key.
 */
export function deriveRobotKey(enroll_key: string, seed: number, number: number): Buffer {
  return createHmac("sha256", enroll_key).update(`roamfleet swarm\n${seed}\n${number}`).digest();
}

/** Returns a key that signs with 32 private bytes. */
export function robotKey(raw: Buffer): RobotKey {
  const key = privateKey(raw);
  const der = createPublicKey(key).export({ type: "spki", format: "der" });
  return {
    place: "file",
    public_key: der.subarray(-RAW_KEY_BYTES).toString("base64"),
    sign: async (text) => sign(null, Buffer.from(text), key).toString("base64"),
  };
}

const privateKey = (raw: Buffer): KeyObject => createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, raw]), format: "der", type: "pkcs8" });
