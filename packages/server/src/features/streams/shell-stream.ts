import { CLOSE } from "@roamfleet/protocol";
import { type Channel, controlMessage, dataMessage, readMessage, type ShellParams } from "@roamfleet/protocol/link";
import { badRequest } from "../../kernel/fault.ts";
import type { ShellSession } from "../shells/index.ts";
import type { StartStream, StreamContext } from "./stream-kind.ts";
import { closeOf, openAtRobot, readControl } from "./robot-channel.ts";
import type { Viewer } from "./viewer.ts";

export const SHELL_SUBPROTOCOL = "roamfleet.shell.v1";
const CLOSE_FAILED = 1011;
const SIZE_MAX = 1_000;
const VIEWER_CONTROLS = new Set(["resize", "eof"]);

type ShellQuery = Required<Pick<ShellParams, "cols" | "rows" | "terminal" | "term">> & Pick<ShellParams, "app" | "command">;

/**
 * Prepares a shell. Throws 400 for invalid values. Reads these query parameters:
 * - `cols` and `rows`: size of the terminal (default 80 and 24)
 * - `app`: the app in which the shell is opened
 * - `command`: a JSON list of words, or a line for `sh -c`
 * - `terminal`: `no` for raw bytes instead of a terminal
 * - `term`: type of the terminal (default xterm-256color)
 */
export function prepareShell(query: URLSearchParams): StartStream {
  const term = query.get("term") ?? "xterm-256color";
  if (!/^[\w.+-]{1,64}$/.test(term)) throw badRequest("query parameter term must be the name of a terminal type, such as xterm-256color");
  const terminal = query.get("terminal") ?? "yes";
  if (terminal !== "yes" && terminal !== "no") throw badRequest("query parameter terminal must be yes or no");
  const request: ShellQuery = { cols: sizeIn(query, "cols", 80), rows: sizeIn(query, "rows", 24), terminal: terminal === "yes", term };
  const app = query.get("app");
  if (app !== null && !/^[a-z0-9][a-z0-9._-]{0,62}$/.test(app)) throw badRequest("query parameter app must be the name of an app");
  if (app !== null) request.app = app;
  const command = query.get("command");
  if (command !== null) request.command = commandIn(command);
  return (context, viewer) => startShell(context, viewer, request);
}

function sizeIn(query: URLSearchParams, name: "cols" | "rows", otherwise: number): number {
  const text = query.get(name);
  const size = text === null ? otherwise : Number(text);
  if (text?.trim() === "" || !isSize(size)) throw badRequest(`query parameter ${name} must be a number from 1 to ${SIZE_MAX}`);
  return size;
}

const isSize = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= SIZE_MAX;

function commandIn(text: string): string[] {
  const refused = badRequest("query parameter command must be a command line, or a JSON list of words");
  if (text.trim() === "") throw refused;
  if (!text.startsWith("[")) return ["sh", "-c", text];
  let words: unknown;
  try {
    words = JSON.parse(text);
  } catch {
    throw refused;
  }
  if (!Array.isArray(words) || words.length === 0 || words[0] === "") throw refused;
  if (!words.every((word) => typeof word === "string" && !word.includes("\0"))) throw refused;
  return words as string[];
}

/** Serves a shell for one viewer. Its session is stored before the shell opens, and all its output is recorded. */
async function startShell(context: StreamContext, viewer: Viewer, params: ShellQuery): Promise<void> {
  const opening = openShell(context, viewer, params);
  // Receive the viewer's input even before the channel to the robot is open. Until then, the input waits.
  viewer.receive(async (data, binary) => {
    const { shell, channel } = await opening;
    if (channel !== undefined) await shell.toRobot(channel, data, binary);
  });
  const { shell, channel } = await opening;
  if (channel !== undefined) void shell.toViewer(channel);
}

async function openShell(
  { plane, shells }: StreamContext,
  viewer: Viewer,
  params: ShellQuery,
): Promise<{ shell: ShellStream; channel: Channel | undefined }> {
  const { caller, robot_id, ip } = viewer.admitted;
  const { app = null, command = null } = params;
  const session = await shells.open(
    { ...params, org_id: caller.org_id, robot_id, request_id: viewer.request_id, actor: caller.actor, ip, app, command },
    (reason) => viewer.close(CLOSE_FAILED, reason),
  );
  const shell = new ShellStream(viewer, session);
  let channel: Channel | undefined;
  try {
    if (viewer.open) channel = await openAtRobot(plane, viewer, "shell", "shell", params);
  } catch (error) {
    viewer.close(CLOSE_FAILED, "the server could not serve the stream");
    await shell.end();
    throw error;
  }
  if (channel === undefined) await shell.end();
  return { shell, channel };
}

class ShellStream {
  readonly #viewer: Viewer;
  readonly #session: ShellSession;
  /** Whether the viewer uses the subprotocol SHELL_SUBPROTOCOL, in which text frames are control messages. */
  readonly #controlled: boolean;
  #exit_code: number | undefined;

  constructor(viewer: Viewer, session: ShellSession) {
    this.#viewer = viewer;
    this.#session = session;
    this.#controlled = viewer.ws.protocol === SHELL_SUBPROTOCOL;
  }

  async toRobot(channel: Channel, data: Buffer, binary: boolean): Promise<void> {
    if (binary || !this.#controlled) return void (await channel.write(dataMessage(data)));
    const control = readControl(data, VIEWER_CONTROLS);
    if (control.type === "resize") {
      const { cols, rows } = control;
      if (!isSize(cols) || !isSize(rows)) throw new Error("not a terminal size");
      this.#session.recorder.resize(cols, rows);
      await channel.write(controlMessage({ type: "resize", cols, rows }));
    } else await channel.write(controlMessage({ type: "eof" }));
  }

  /**
   * Forwards the output of the shell only as fast as the recorder and the viewer accept it. Backpressure then pauses the program on the
   * robot.
   */
  async toViewer(channel: Channel): Promise<void> {
    try {
      for await (const message of channel) {
        const { data, control } = readMessage(message);
        if (data !== undefined) await this.#show(data, data);
        else if (control.type === "stderr") await this.#showError(control);
        else if (control.type === "exit") await this.#takeExit(control);
      }
    } catch {
      channel.reset(CLOSE.bad_message, "the robot sent an invalid message of a shell");
    }
    const { code, reason } = closeOf(await channel.ended);
    if (this.#exit_code === undefined) this.#viewer.close(code, reason);
    else this.#viewer.close(1000, `exit ${this.#exit_code}`);
    await this.end(reason);
  }

  async #show(bytes: Uint8Array, frame: Uint8Array | string): Promise<void> {
    await this.#session.recorder.output(bytes);
    await this.#viewer.send(frame);
  }

  async #showError({ type, data }: Record<string, unknown>): Promise<void> {
    const bytes = Buffer.from(String(data), "base64");
    await this.#show(bytes, this.#controlled ? JSON.stringify({ type, data }) : bytes);
  }

  async #takeExit({ code, signal }: Record<string, unknown>): Promise<void> {
    this.#exit_code = Number.isInteger(code) ? Number(code) : 255;
    const control = { type: "exit", code: this.#exit_code, ...(typeof signal === "string" ? { signal } : {}) };
    if (this.#controlled) await this.#viewer.send(JSON.stringify(control));
  }

  /** Stores the result of the shell session. Never throws. */
  async end(robot_reason = ""): Promise<void> {
    const exit_code = this.#exit_code ?? null;
    const { reason, aborted } = exit_code === null ? endingOf(this.#viewer, robot_reason) : { reason: "exit", aborted: false };
    if (exit_code !== null) this.#session.recorder.mark(`exit ${exit_code}`);
    await this.#session.end({ status: aborted ? "aborted" : "ended", exit_code, reason });
  }
}

/** Returns why a shell ended without an exit code. */
function endingOf({ ended_with }: Viewer, robot_reason: string): { reason: string; aborted: boolean } {
  if (ended_with === undefined) return { reason: "viewer_left", aborted: false };
  // In this case the agent ended the shell normally, but sent no exit code.
  if (ended_with === 1000) return { reason: "ended", aborted: false };
  if (ended_with === CLOSE.ended_by_robot) return { reason: robot_reason === "" ? "ended_by_robot" : robot_reason, aborted: false };
  const [reason = "server_error"] = Object.entries(CLOSE).find(([, code]) => code === ended_with) ?? [];
  return { reason, aborted: ended_with === CLOSE.agent_offline || reason === "server_error" };
}
