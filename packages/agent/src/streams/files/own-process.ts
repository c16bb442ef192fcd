import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { type Channel, CLOSE_NOT_AVAILABLE, controlMessage, FrameError, MESSAGE_BYTES_MAX, readMessage } from "@roamfleet/protocol/link";
import { type Clock, systemClock } from "@roamfleet/clock";
import { drained } from "@roamfleet/protocol/drained";
import { spawnChild } from "../../runtime/spawn-child.ts";
import type { RunAs } from "../../runtime/users.ts";
import type { FileRoom, MessagePort } from "./place.ts";
import { serveFiles } from "./session.ts";
import { ByteReader } from "../../runtime/byte-reader.ts";

const CLOSE_TOO_MANY = 4429;
/** Maximum concurrent processes: each one runs a separate Node runtime on the robot. */
export const PROCESSES_MAX = 8;
/** Time limit in milliseconds for a process to end. After that it is killed. */
const END_TIMEOUT_MS = 5_000;
/** PATH of the process. It inherits no environment variables from the agent. */
const PATH_OF_CHILD = "/usr/local/bin:/usr/bin:/bin";

/** Counts the running processes of one robot. */
export interface Processes {
  running: number;
}

/** Returns the path of the agent's program. In a bundled agent, that is the file that was started. */
const program = (): string =>
  import.meta.filename.endsWith(".ts") ? path.resolve(import.meta.dirname, "../../main.ts") : (process.argv[1] ?? "");

/**
 * Serves a channel from a separate process that runs as the user. So the operating system enforces the user's
 * rights.
 */
export async function serveInProcess(
  channel: Channel,
  room: FileRoom,
  user: RunAs,
  { clock, processes }: { clock: Pick<Clock, "setTimer">; processes: Processes },
): Promise<void> {
  if (processes.running >= PROCESSES_MAX)
    return channel.reset(CLOSE_TOO_MANY, `a robot serves at most ${PROCESSES_MAX} file sessions at a time`);
  const argv = [...user.become, process.execPath, program(), "serve-files"];
  const env = { HOME: user.home, PATH: PATH_OF_CHILD };
  const child = spawnChild(argv[0] ?? "", argv.slice(1), { cwd: "/", env, stdio: ["pipe", "pipe", "ignore"] });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) return channel.reset(CLOSE_NOT_AVAILABLE, "the robot could not start a process for files");
  const gone = new Promise<void>((resolve) => child.once("close", () => resolve()).once("error", () => resolve()));
  processes.running += 1;
  void gone.then(() => (processes.running -= 1));
  const port = new PipePort(stdout, stdin);
  const leave = (): void => {
    stdin.end();
    stdout.destroy();
    const late = clock.setTimer(END_TIMEOUT_MS, () => child.kill("SIGKILL"));
    void gone.then(() => late.cancel());
  };
  void channel.ended.then(leave);
  const inward = (async () => {
    await port.write(controlMessage({ type: "room", ...room }));
    for await (const message of channel) if (!(await port.write(message))) return;
  })();
  // The promise is awaited below, possibly after it has failed: this handler prevents an unhandled rejection.
  inward.catch(() => {});
  for (let message = await port.read(); message !== undefined; message = await port.read()) if (!(await channel.write(message))) break;
  channel.reset(CLOSE_NOT_AVAILABLE, `the robot cannot serve files as ${user.name}`);
  await Promise.all([inward, gone]);
}

const LENGTH_BYTES = 4;

/** Sends and receives messages over a pair of pipes. Each message has a length prefix of four bytes. */
class PipePort implements MessagePort {
  readonly #reader: ByteReader;
  readonly #output: Writable;

  constructor(input: Readable, output: Writable) {
    this.#reader = new ByteReader(input);
    this.#output = output;
    // Ignore errors here: after an error, a pipe also emits `close`, which is handled.
    input.on("error", () => {});
    output.on("error", () => {});
  }

  async read(): Promise<Uint8Array | undefined> {
    const head = await this.#take(LENGTH_BYTES);
    if (head === undefined) return undefined;
    const length = head.readUInt32BE(0);
    if (length > MESSAGE_BYTES_MAX) throw new FrameError(`message of ${length} bytes is over ${MESSAGE_BYTES_MAX}`);
    return this.#take(length);
  }

  #take(count: number): Promise<Buffer | undefined> {
    return this.#reader.take(count).catch(() => undefined);
  }

  async write(message: Uint8Array): Promise<boolean> {
    const output = this.#output;
    if (output.destroyed || output.writableEnded) return false;
    const head = Buffer.allocUnsafe(LENGTH_BYTES);
    head.writeUInt32BE(message.length, 0);
    output.cork();
    output.write(head);
    const has_room = output.write(message);
    output.uncork();
    if (!has_room) await drained(output);
    return !output.destroyed;
  }
}

/**
 * Serves files over stdin and stdout, in the process that `serveInProcess` starts. The first message contains
 * the allowed directories; requests follow. Ends when stdin ends.
 */
export async function serveStdio(): Promise<void> {
  const port = new PipePort(process.stdin, process.stdout);
  const first = await port.read();
  const { directories, home, closed } = first === undefined ? {} : (readMessage(first).control ?? {});
  if (!Array.isArray(directories) || typeof home !== "string" || typeof closed !== "string")
    throw new Error("serve-files is started by the agent itself");
  await serveFiles(port, { directories: directories.map(String), home, closed }, () => systemClock.now().getTime());
}
