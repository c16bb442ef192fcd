import type { StreamName } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import type { RobotSurroundings } from "./robot-surroundings.ts";
import { streamTarget } from "./stream-target.ts";

const WAIT_MS = 60_000;
const REPEAT_MS = 500;
/** Real interval for polling sockets and programs while time is simulated. */
const SIMULATED_REPEAT_MS = 10;
/** Received characters that are kept for searching. */
const SEEN_CHARACTERS_MAX = 16 * 1024;
/** The Enter key in a terminal. */
const ENTER = "\r";

export interface StreamEnd {
  code: number;
  reason: string;
}

export interface StreamCredentials {
  query?: Record<string, string>;
  headers?: Record<string, string>;
  ca?: string | undefined;
}

/** A stream of any kind, with methods that check whether the stream works. */
export class OpenStream {
  readonly name: StreamName;
  readonly ws: WebSocket;
  readonly closed: Promise<StreamEnd>;
  /** Number of received messages. */
  count = 0;
  /** Number of gaps that the server reported. */
  skipped = 0;
  /**
   * Number of messages that the test published again because no subscriber had received them. At most this many messages may arrive twice.
   */
  repeats = 0;
  readonly #around: RobotSurroundings;
  #seen = "";
  #changed: (() => void) | undefined;
  #rounds = 0;

  private constructor(name: StreamName, ws: WebSocket, around: RobotSurroundings) {
    this.name = name;
    this.ws = ws;
    this.#around = around;
    this.closed = new Promise((resolve) => ws.once("close", (code, reason) => resolve({ code, reason: String(reason) })));
    ws.on("error", () => {});
    ws.on("message", (data: Buffer) => {
      this.count += 1;
      if (/^\{"skipped":|records dropped"/.test(data.subarray(0, SEEN_CHARACTERS_MAX).toString("latin1"))) this.skipped += 1;
      // Keep only the start of a message, because images and files are long and are not searched.
      this.#seen = (this.#seen + data.subarray(0, SEEN_CHARACTERS_MAX).toString("latin1")).slice(-SEEN_CHARACTERS_MAX);
      this.#changed?.();
    });
    ws.once("close", () => this.#changed?.());
  }

  /** Opens a stream. Resolves when the stream is open; rejects when the server refuses it. */
  static async open(
    base_url: string,
    name: StreamName,
    robot_id: string,
    around: RobotSurroundings,
    { query = {}, headers = {}, ca }: StreamCredentials,
  ): Promise<OpenStream> {
    const target = streamTarget(name, robot_id, { ...around.query(name), ...query });
    const ws = new WebSocket(base_url.replace(/^http/, "ws") + target, { headers, ...(ca === undefined ? {} : { ca }) });
    const stream = new OpenStream(name, ws, around);
    await new Promise<void>((resolve, reject) => {
      ws.once("open", resolve);
      ws.once("unexpected-response", (_, { statusCode }) => reject(new Error(`${name} was refused: ${statusCode}`)));
      ws.once("error", reject);
    });
    return stream;
  }

  get open(): boolean {
    return this.ws.readyState === this.ws.OPEN;
  }

  /** Makes a round trip to the robot, or receives something from it. `meanwhile` runs between the checks, for example to advance simulated time. */
  async round(meanwhile?: () => Promise<void>): Promise<void> {
    const mark = `mark-${(this.#rounds += 1)}-${Math.random().toString(36).slice(2)}`;
    const before = this.count;
    switch (this.name) {
      case "logs":
        this.#around.writeLine(mark);
        return await this.#until(() => this.#seen.includes(mark), meanwhile);
      case "shell":
        // Split the mark with quotes, so that the terminal's echo of the command does not match it.
        this.ws.send(Buffer.from(`echo ${mark.slice(0, 4)}""${mark.slice(4)}${ENTER}`));
        return await this.#until(() => this.#seen.includes(mark), meanwhile);
      case "camera":
        return await this.#until(() => this.count > before, meanwhile);
      case "ros_echo": {
        // Publish the message again until it arrives: before the robot has subscribed to the topic, no subscriber receives it.
        let published = 0;
        return await this.#until(
          () => this.#seen.includes(mark),
          meanwhile,
          () => {
            if (published > 0) this.repeats += 1;
            published += 1;
            this.#around.publish(mark);
          },
        );
      }
      case "forward":
        this.ws.send(Buffer.from(mark));
        return await this.#until(() => this.#seen.includes(mark), meanwhile);
      case "files":
        this.#seen = "";
        this.ws.send(JSON.stringify({ type: "read", path: this.#around.file.path, offset: 0 }));
        return await this.#until(() => this.#seen.includes(`"sha256":"${this.#around.file.sha256}"`), meanwhile);
    }
  }

  async #until(holds: () => boolean, meanwhile: (() => Promise<void>) | undefined, again: () => void = () => {}): Promise<void> {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      if (holds()) return;
      const why = `${this.name}, ${this.count} messages, the last output: ${JSON.stringify(this.#seen.slice(-200))}`;
      if (!this.open) throw new Error(`the stream closed with ${(await this.closed).code}: ${why}`);
      if (performance.now() > deadline) throw new Error(`waited ${WAIT_MS} ms for: ${why}`);
      again();
      await meanwhile?.();
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, meanwhile === undefined ? REPEAT_MS : SIMULATED_REPEAT_MS);
        this.#changed = () => {
          clearTimeout(timer);
          resolve();
        };
        if (holds()) this.#changed();
      });
      this.#changed = undefined;
    }
  }

  async end(): Promise<void> {
    this.ws.close(1000);
    await this.closed;
  }
}
