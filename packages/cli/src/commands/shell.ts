import process from "node:process";
import type { Stream } from "@roamfleet/sdk";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";
import { EscapeFilter, LocalTerminal } from "../shell/local-terminal.ts";
import { streamFailure } from "../stream-ending.ts";

const SUBPROTOCOL = "roamfleet.shell.v1";
/** Maximum size of a message that the server accepts. */
const MESSAGE_BYTES_MAX = 32 * 1024;
/** Maximum bytes of typed input waiting for a stalled connection; further input is dropped with a bell. */
const TYPED_BYTES_MAX = 4 * 1024 * 1024;
/** After `~.`, the connection is aborted if it has not closed within this time. */
const LEAVE_MS_MAX = 1_000;
const BELL = "\u0007";
const HELP = "\r\n~.  end the connection\r\n~~  a single ~\r\n~?  this help\r\n(after Enter only)\r\n";

interface Options {
  app?: string;
  tty?: boolean;
}

export const shell = defineCommand<[string, string[], Options]>(
  "Open a shell on a robot, or run a command there. The output is recorded. rf exits with the shell's exit code. `~.` after Enter ends a stuck connection. If stdin or stdout is not a terminal, bytes pass through unchanged and stderr is separate.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .argument("[command...]", "Command to run instead of a shell, after --")
      .option("--app <name>", "Run inside this app: in its container, or with its bundle's directory and environment")
      .option("-T, --no-tty", "Do not allocate a terminal on the robot"),
  async (context, robot_id, command, { app, tty }) => {
    const client = await context.client();
    const terminal = tty !== false && LocalTerminal.present ? new LocalTerminal() : undefined;
    const cut = new AbortController();
    const stream = await client.stream("shell", {
      robot_id,
      signal: cut.signal,
      protocols: [SUBPROTOCOL],
      query: {
        ...(terminal === undefined ? { terminal: "no" } : { ...terminal.size, term: context.environment.term }),
        app,
        command: command.length === 0 ? undefined : JSON.stringify(command),
      },
    });
    let leaving: { cancel(): void } | undefined;
    const shell = new RemoteShell(stream, terminal, () => {
      stream.close();
      leaving ??= context.clock.setTimer(LEAVE_MS_MAX, () => cut.abort());
    });
    terminal?.open((size) => void stream.send(JSON.stringify({ type: "resize", ...size })));
    let exit_code: number | undefined;
    try {
      shell.takeInput();
      exit_code = await shell.show();
    } finally {
      leaving?.cancel();
      terminal?.close(exit_code !== undefined);
      process.stdin.destroy();
    }
    if (exit_code !== undefined) process.exitCode = exit_code;
    else throw ending(shell, stream);
  },
  [
    "rf robots shell rob_…",
    "rf robots shell rob_… -- uptime",
    "rf robots shell rob_… --app nav",
    "rf robots shell rob_… -- tar c -C /var/log . > logs.tar",
  ],
);

function ending({ left, printed }: RemoteShell, { ending = { code: 1006, reason: "" } }: Stream): Failure {
  if (left) return new Failure(EXIT.error, "disconnected", { bare: true, document: undefined });
  const again = "The programs of the shell were stopped. `rf robots sessions list <id>` shows the session.";
  return (
    streamFailure(ending, { right: "open this shell", again, nothing_printed: !printed }) ??
    new Failure(EXIT.error, `the shell ended without an exit code${ending.reason === "" ? "" : `: ${ending.reason}`}`, {
      document: undefined,
    })
  );
}

/** Relays both directions of one shell. */
class RemoteShell {
  /** Whether the user typed `~.`. */
  left = false;
  /** Whether any output was printed to stdout. */
  printed = false;
  readonly #stream: Stream;
  readonly #terminal: LocalTerminal | undefined;
  readonly #leave: () => void;
  readonly #filter = new EscapeFilter();
  /** Typed input that is not sent yet. */
  #typed: Uint8Array[] = [];
  #typed_bytes = 0;
  #sending = false;

  /** `leave` is called when the user types `~.`. */
  constructor(stream: Stream, terminal: LocalTerminal | undefined, leave: () => void) {
    this.#stream = stream;
    this.#terminal = terminal;
    this.#leave = leave;
  }

  /** Starts reading stdin. A pipe is read with backpressure. A terminal is read all the time, so that `~.` works on a stuck connection. */
  takeInput(): void {
    process.stdin.on("data", (bytes: Buffer) => {
      if (this.#terminal !== undefined) return this.#type(bytes);
      process.stdin.pause();
      void this.#send(bytes).then(() => process.stdin.resume());
    });
    process.stdin.once("end", () => this.#endInput());
    // A read error ends the input. The shell continues without it.
    process.stdin.on("error", () => this.#endInput());
  }

  #endInput(): void {
    if (this.#terminal === undefined) void this.#stream.send(JSON.stringify({ type: "eof" }));
  }

  #type(typed: Buffer): void {
    const { bytes, escapes } = this.#filter.take(typed);
    if (this.#typed_bytes + bytes.length > TYPED_BYTES_MAX) process.stdout.write(BELL);
    else {
      this.#typed.push(bytes);
      this.#typed_bytes += bytes.length;
      if (!this.#sending) void this.#sendTyped();
    }
    if (escapes.includes("help")) process.stdout.write(HELP);
    if (!escapes.includes("disconnect")) return;
    this.left = true;
    this.#leave();
  }

  async #sendTyped(): Promise<void> {
    this.#sending = true;
    for (let bytes = this.#typed.shift(); bytes !== undefined; bytes = this.#typed.shift()) {
      await this.#send(bytes);
      this.#typed_bytes -= bytes.length;
    }
    this.#sending = false;
  }

  async #send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += MESSAGE_BYTES_MAX) await this.#stream.send(bytes.subarray(at, at + MESSAGE_BYTES_MAX));
  }

  /** Prints the shell's output until the stream ends, with backpressure from stdout. Returns the exit code if one was received. */
  async show(): Promise<number | undefined> {
    let exit_code: number | undefined;
    for await (const { binary, data } of this.#stream) {
      if (binary) {
        this.printed = true;
        this.#terminal?.watch(data);
        await write(process.stdout, data);
        continue;
      }
      const control = JSON.parse(data.toString("utf8")) as { type?: unknown; code?: unknown; data?: unknown };
      if (control.type === "stderr" && typeof control.data === "string") await write(process.stderr, Buffer.from(control.data, "base64"));
      else if (control.type === "exit" && typeof control.code === "number") exit_code = control.code;
    }
    return exit_code;
  }
}

/** Writes bytes; resolves when more can be written. */
const write = (stream: NodeJS.WriteStream, bytes: Uint8Array): Promise<void> =>
  new Promise((resolve) => void (stream.write(bytes) ? resolve() : stream.once("drain", resolve)));
