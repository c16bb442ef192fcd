import fs from "node:fs";
import type { Duplex } from "node:stream";
import type { Clock } from "@roamfleet/clock";
import type Docker from "dockerode";
import type { EngineCalls } from "../../contract.ts";
import { readProcess } from "../../runtime/processes.ts";
import { endSession, OutputQueue, type ShellExit, type Size, type Terminal, writeInput } from "./terminal.ts";
import { engineOutput, type Output } from "../../runtime/byte-reader.ts";

const INSPECT_MS = 200;
/** Maximum wait for the engine to return the exit code. After that the exit code is unknown. */
const EXIT_TOLD_MS_MAX = 5_000;
/** Exit code that is reported for a program whose real exit code is unknown. */
const EXIT_UNKNOWN = 255;
const MARKER = "ROAMFLEET_SHELL_ID";
const MARKER_BYTES = 12;
const NO_WAIT = { wait_ms: 0 };

/**
 * Script that kills processes inside the container if they cannot be signaled from outside. It finds them by a marker in their environment.
 * The script gets the marker as $0, not in its environment, so it does not find itself.
 */
const KILL_INSIDE = 'for p in /proc/[0-9]*; do grep -qs "$0" "$p/environ" && kill -9 "${p#/proc/}"; done; true';

interface ContainerShell extends Size {
  engine: EngineCalls;
  container_id: string;
  argv: readonly string[];
  term: string;
  /** Whether the program has a terminal. Without one, bytes are unchanged and stderr is separate from stdout. */
  tty: boolean;
  clock: Clock;
}

/** A program in a running container, optionally on a terminal that the engine creates there. */
export class ContainerTerminal implements Terminal {
  readonly exited: Promise<ShellExit>;
  readonly #options: ContainerShell;
  readonly #exec: Docker.Exec;
  readonly #marker: string;
  readonly #attached: Duplex;
  readonly #output: Pick<OutputQueue, "read" | "end">;
  readonly #over = Promise.withResolvers<void>();
  readonly #connection: AbortController;
  #closed: Promise<void> | undefined;

  /** Starts the program. Throws StepFailure or the engine's error if that fails. */
  static async open(options: ContainerShell): Promise<ContainerTerminal> {
    const { engine, container_id, argv, term, tty, cols, rows, clock } = options;
    const connection = new AbortController();
    const { signal } = connection;
    const marker = `${MARKER}=${Buffer.from(clock.randomBytes(MARKER_BYTES)).toString("hex")}`;
    const exec = await engine.use({ what: "create a shell in a container", signal, ...NO_WAIT }, (docker, abortSignal) =>
      docker.getContainer(container_id).exec({
        Cmd: [...argv],
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: true,
        Tty: tty,
        // Use a detach sequence that no real input contains, so that every byte reaches the program.
        DetachKeys: "ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@",
        Env: [marker, ...(tty ? [`TERM=${term}`] : [])],
        ...(tty ? { ConsoleSize: [rows, cols] as [number, number] } : {}),
        abortSignal,
      }),
    );
    const socket = await engine.use({ what: "open a shell in a container", signal, ...NO_WAIT }, () =>
      exec.start({ hijack: true, stdin: true, Tty: tty }),
    );
    const terminal = new ContainerTerminal(options, exec, socket, marker, connection);
    // podman accepts no size in the call that creates the terminal, so set it now.
    if (tty) terminal.resize(cols, rows);
    return terminal;
  }

  private constructor(options: ContainerShell, exec: Docker.Exec, socket: Duplex, marker: string, connection: AbortController) {
    this.#options = options;
    this.#exec = exec;
    this.#attached = socket;
    this.#marker = marker;
    this.#connection = connection;
    this.#output = options.tty ? new OutputQueue([{ stream: socket, error: false }]) : framesOf(socket);
    socket.on("error", () => {});
    socket.once("end", () => this.#over.resolve()).once("close", () => this.#over.resolve());
    this.exited = this.#over.promise.then(() => this.#askExit());
  }

  read(): Promise<Output | undefined> {
    return this.#output.read();
  }

  write(bytes: Uint8Array): Promise<void> {
    return writeInput(this.#attached, bytes);
  }

  endInput(): void {
    this.#attached.end();
  }

  resize(cols: number, rows: number): void {
    if (!this.#options.tty) return;
    const { signal } = this.#connection;
    this.#options.engine
      .use({ what: "resize a terminal", signal, ...NO_WAIT }, () => this.#exec.resize({ w: cols, h: rows }))
      // Resizing fails if the program has just ended. Ignore that.
      .catch(() => {});
  }

  async #askExit(): Promise<ShellExit> {
    const { engine, clock } = this.#options;
    const deadline = clock.monotonic() + EXIT_TOLD_MS_MAX;
    do {
      const told = await engine
        .use({ what: "describe a shell", signal: new AbortController().signal, ...NO_WAIT }, () => this.#exec.inspect())
        .catch(() => undefined);
      if (told === undefined) break;
      if (!told.Running && told.ExitCode !== null) return { code: told.ExitCode };
      await clock.sleep(INSPECT_MS);
    } while (clock.monotonic() < deadline && this.#closed === undefined);
    return { code: EXIT_UNKNOWN };
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#end());
  }

  /** Ends the program, since the engine does not end it when the connection closes. */
  async #end(): Promise<void> {
    const { engine, container_id, clock } = this.#options;
    const { signal } = new AbortController();
    this.#output.end();
    try {
      const { Running, Pid } = await engine.use({ what: "describe a shell", signal, ...NO_WAIT }, (docker) =>
        docker.getExec(this.#exec.id).inspect(),
      );
      if (!Running) return;
      const leader = this.#findOutside(Pid);
      if (leader !== undefined) return await endSession(leader, clock);
      const exec = await engine.use({ what: "end a shell", signal, ...NO_WAIT }, (docker) =>
        docker.getContainer(container_id).exec({ Cmd: ["sh", "-c", KILL_INSIDE, this.#marker] }),
      );
      await engine.use({ what: "end a shell", signal, ...NO_WAIT }, () => exec.start({ Detach: true }));
    } catch {
      // The engine or the container is gone, and so is the shell.
    } finally {
      // Close the connection last. A program that ended normally has already closed it.
      this.#attached.destroy();
      this.#connection.abort();
    }
  }

  /**
   * Returns the program's process on this machine. Returns undefined if the engine runs on another machine, or if the agent may not signal
   * the process.
   */
  #findOutside(pid: number | undefined): { id: number; start_time: number } | undefined {
    if (pid === undefined || pid <= 1) return undefined;
    try {
      if (!fs.readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(this.#marker)) return undefined;
      process.kill(pid, 0);
    } catch {
      return undefined;
    }
    const found = readProcess(pid);
    return found?.session === pid ? { id: pid, start_time: found.start_time } : undefined;
  }
}

/** Returns a reader of output without a terminal. The output ends when `close` destroys the connection. */
function framesOf(socket: Duplex): Pick<OutputQueue, "read" | "end"> {
  const frames = engineOutput(socket);
  const next = async (): Promise<Output | undefined> => (await frames.next()).value;
  return { read: () => next().catch(() => undefined), end: () => {} };
}
