import { type Channel, controlMessage, dataMessage, readMessage } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { printable } from "../../kernel/fault.ts";
import type { StartStream } from "./stream-kind.ts";
import { closeWith, openAtRobot, readControl, recordViewerAction } from "./robot-channel.ts";
import type { Viewer } from "./viewer.ts";

const REQUESTS = new Set(["stat", "list", "read", "write", "end", "mkdir"]);
/** Maximum length of a path: PATH_MAX of Linux. */
const PATH_CHARACTERS_MAX = 4096;

/**
 * Serves a session of file transfers. Text frames are requests and responses, and binary frames are the bytes of a file. Each read and
 * write gets a timeline entry.
 */
export const startFiles: StartStream = async ({ plane }, viewer) => {
  const opened = openAtRobot(plane, viewer, "files", "camera", {});
  const session = new FileSession(plane, viewer);
  // Receive the viewer's requests even before the channel to the robot is open. Until then, the requests wait.
  viewer.receive(async (data, binary) => {
    const channel = await opened;
    if (channel === undefined) return;
    if (binary) await channel.write(dataMessage(data));
    else await channel.write(controlMessage(readControl(data, REQUESTS)));
  });
  const channel = await opened;
  if (channel !== undefined) void session.toViewer(channel);
};

class FileSession {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  /** The file that the robot is sending, and how many of its bytes were forwarded to the viewer. */
  #reading: { path: string; size: unknown; bytes: number } | undefined;

  constructor(plane: Plane, viewer: Viewer) {
    this.#plane = plane;
    this.#viewer = viewer;
  }

  async toViewer(channel: Channel): Promise<void> {
    try {
      for await (const message of channel) {
        const { data, control } = readMessage(message);
        if (data !== undefined) {
          if (this.#reading !== undefined) this.#reading.bytes += data.length;
          await this.#viewer.send(data);
        } else {
          await this.#answered(control);
          await this.#viewer.send(JSON.stringify(control));
        }
      }
    } catch (error) {
      channel.reset(1008, (error as Error).message);
    }
    await this.#recordPartialRead();
    await closeWith(this.#viewer, channel);
  }

  async #answered({ type, path: reported_path, size, bytes, sha256, moved, unchanged }: Record<string, unknown>): Promise<void> {
    const path = String(reported_path).slice(0, PATH_CHARACTERS_MAX);
    if (type === "reading") this.#reading = { path, size, bytes: 0 };
    else if (type === "failed") await this.#recordPartialRead();
    else if (type === "done") {
      // A `done` refers to the file that is being read, if there is one, even if a later write request is already queued at the robot.
      const was_read = this.#reading !== undefined;
      this.#reading = undefined;
      const data = { path, bytes, moved, sha256, ...(unchanged === true ? { unchanged } : {}) };
      if (was_read) await this.#record("file.read", `${printable(path)} was read`, data);
      else await this.#record("file.written", `${printable(path)} was written`, data);
    }
  }

  /** Writes a timeline entry for a read that was aborted, if the user has received a part of the file. */
  async #recordPartialRead(): Promise<void> {
    const reading = this.#reading;
    this.#reading = undefined;
    if (reading === undefined || reading.bytes === 0) return;
    const { path, size, bytes } = reading;
    await this.#record("file.read", `${printable(path)} was partly read`, { path, bytes: size, moved: bytes, sha256: null });
  }

  #record(kind: string, summary: string, data: Record<string, unknown>): Promise<void> {
    return recordViewerAction(this.#plane, this.#viewer, { kind, summary, data });
  }
}
