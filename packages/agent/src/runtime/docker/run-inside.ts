import type { Readable } from "node:stream";
import type { Clock } from "@roamfleet/clock";
import { errorMessage, StepAborted } from "../failure.ts";
import { OUTPUT_TAIL_CHARACTERS } from "../limits.ts";
import type { ProbeResult } from "../probe.ts";
import { type Engine, engineMessage } from "./engine.ts";

interface Options {
  container_id: string;
  engine: Engine;
  clock: Clock;
}

const POLL_FIRST_MS = 20;
const POLL_LAST_MS = 200;
/** Wait for the rest of a command's output after its end. */
const OUTPUT_END_MS = 500;
/** Frames of the engine's stream between parts of the output: stream, three zero bytes, length. */
// oxlint-disable-next-line no-control-regex
const FRAME = /[\u0000-\u0002]\0\0\0[\s\S]{4}/g;

/** Runs commands in a container, one at a time: an engine cannot end a command that hangs, so no second one is started beside it. */
export class ContainerCommands {
  readonly #options: Options;
  #busy: string | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Returns within the timeout. Throws only if it is aborted. */
  async run(argv: string[], timeout_ms: number, signal: AbortSignal, what: string): Promise<ProbeResult> {
    const name = `${what} ${argv[0]}`;
    try {
      if (this.#busy !== undefined && (await this.#runs(this.#busy, signal)))
        return { ok: false, message: `${name} still hangs from an earlier run` };
      return await this.#runOnce(argv, timeout_ms, signal, name);
    } catch (error) {
      if (signal.aborted) throw new StepAborted();
      return { ok: false, message: `${name}: ${engineMessage(error) || errorMessage(error)}` };
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
    output.on("data", (chunk: Buffer) => (tail = (tail + chunk.toString("utf8").replace(FRAME, "")).slice(-OUTPUT_TAIL_CHARACTERS)));
    const ended = new Promise<void>((resolve) => output.once("close", resolve));
    output.on("error", () => {});
    const deadline = clock.monotonic() + timeout_ms;
    try {
      // Polls instead of waiting for the stream's end: background processes of the command keep it open.
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
      // The engine forgets the command when the container is restarted.
      return false;
    }
  }
}
