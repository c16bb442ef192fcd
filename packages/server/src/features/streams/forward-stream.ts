import { type Channel, controlMessage, dataMessage, type ForwardParams, readMessage } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { StartStream, StreamContext } from "./stream-kind.ts";
import { closeWith, openAtRobot, readControl, recordViewerAction } from "./robot-channel.ts";
import type { Viewer } from "./viewer.ts";

const PORT_MAX = 65_535;
const HOST_CHARACTERS_MAX = 253;
/** Control messages that a viewer may send: `eof` closes one direction of the TCP connection, and `reset` resets the connection. */
const VIEWER_CONTROLS = new Set(["eof", "reset"]);

/**
 * Prepares a TCP tunnel through a robot. The robot connects to the address in the query: `port`, and `host` (default 127.0.0.1). Throws 400
 * for invalid values.
 */
export function prepareForward(query: URLSearchParams): StartStream {
  const port = Number(query.get("port") ?? "");
  if (!Number.isInteger(port) || port < 1 || port > PORT_MAX) throw badRequest("query parameter port must be a number from 1 to 65535");
  const host = query.get("host") ?? "127.0.0.1";
  if (host.length > HOST_CHARACTERS_MAX || !/^[\w.:-]+$/.test(host)) throw badRequest("query parameter host must be an address or a name");
  return (context, viewer) => startForward(context, viewer, { host, port });
}

/**
 * Serves a TCP connection that the robot opens for the viewer. Binary frames are the bytes of the connection. Text frames are JSON control
 * messages; `{"type":"eof"}` closes one direction.
 */
async function startForward({ plane }: StreamContext, viewer: Viewer, params: Required<ForwardParams>): Promise<void> {
  const opened = openAtRobot(plane, viewer, "forward", "topics", params);
  const tunnel = new Tunnel(plane, viewer, params);
  // Receive the viewer's messages even before the channel to the robot is open. Until then, the messages wait.
  viewer.receive(async (data, binary) => {
    const channel = await opened;
    if (channel !== undefined) await tunnel.toRobot(channel, data, binary);
  });
  const channel = await opened;
  if (channel !== undefined) void tunnel.toViewer(channel);
}

class Tunnel {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #params: Required<ForwardParams>;
  readonly #bytes = { to_robot: 0, from_robot: 0 };
  /**
   * Undefined until the robot has connected to the target. `at` is when it connected, and `written` resolves when the timeline entry is
   * written.
   */
  #opened: { at: number; written: Promise<void> } | undefined;

  constructor(plane: Plane, viewer: Viewer, params: Required<ForwardParams>) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#params = params;
  }

  async toRobot(channel: Channel, data: Buffer, binary: boolean): Promise<void> {
    if (binary) {
      this.#bytes.to_robot += data.length;
      await channel.write(dataMessage(data));
    } else await channel.write(controlMessage({ type: readControl(data, VIEWER_CONTROLS).type }));
  }

  async toViewer(channel: Channel): Promise<void> {
    try {
      for await (const message of channel) {
        const { data, control } = readMessage(message);
        if (data !== undefined) {
          this.#bytes.from_robot += data.length;
          await this.#viewer.send(data);
        } else {
          if (control.type === "open") this.#recordOpened();
          await this.#viewer.send(JSON.stringify(control));
        }
      }
    } catch (error) {
      channel.reset(1008, (error as Error).message);
    }
    await closeWith(this.#viewer, channel);
    await this.#recordClosed();
  }

  /** Writes the timeline entry of the first `open` message. Ignores further ones, because a hostile robot may send any number of them. */
  #recordOpened(): void {
    if (this.#opened !== undefined) return;
    const { host, port } = this.#params;
    const written = this.#record("tunnel.opened", `A tunnel to ${host}:${port} was opened`, {});
    this.#opened = { at: this.#plane.clock.monotonic(), written };
  }

  async #recordClosed(): Promise<void> {
    if (this.#opened === undefined) return;
    const { at, written } = this.#opened;
    await written;
    const { to_robot, from_robot } = this.#bytes;
    const duration_seconds = Math.round(this.#plane.clock.monotonic() - at) / 1_000;
    const { host, port } = this.#params;
    await this.#record("tunnel.closed", `The tunnel to ${host}:${port} was closed: ${to_robot} bytes to the robot, ${from_robot} from it`, {
      bytes_to_robot: to_robot,
      bytes_from_robot: from_robot,
      duration_seconds,
    });
  }

  #record(kind: string, summary: string, data: Record<string, unknown>): Promise<void> {
    return recordViewerAction(this.#plane, this.#viewer, { kind, summary, data: { ...this.#params, ...data } });
  }
}
