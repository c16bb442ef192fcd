import { FrameError, readMessage } from "@roamfleet/protocol/link";
import { answer, answerList, answerMkdir, answerStat } from "./look.ts";
import { type MessagePort, PortClosed } from "./message-port.ts";
import type { FileRoom } from "./place.ts";
import { answerRead } from "./read-file.ts";
import { FileRefused, refusalOf } from "./refused.ts";
import { FileWriter } from "./write-file.ts";

/** A request of type FileRequest, not validated yet. */
type Asked = Readonly<Record<string, unknown>>;

/** Handles requests, in sequence, until the other end closes. Throws FrameError for an invalid message. */
export async function serveFiles(port: MessagePort, room: FileRoom, now: () => number): Promise<void> {
  const writer = new FileWriter(room, now);
  for (let message = await port.read(); message !== undefined; message = await port.read()) {
    const { control } = readMessage(message);
    // Data of a write that has already failed, and its end.
    if (control === undefined || control["type"] === "end") continue;
    try {
      await serveRequest(port, room, writer, control);
    } catch (error) {
      if (error instanceof PortClosed) return;
      if (error instanceof FrameError) throw error;
      const { code, message: words } = refusalOf(error, String(control["path"]));
      await answer(port, { type: "failed", code, message: words }).catch(() => {});
    }
  }
}

function serveRequest(port: MessagePort, room: FileRoom, writer: FileWriter, asked: Asked): Promise<void> {
  const { path, offset, version, size, sha256, mode } = asked;
  switch (asked["type"]) {
    case "stat":
      return answerStat(port, room, path);
    case "list":
      return answerList(port, room, path);
    case "read":
      return answerRead(port, room, { path, offset, version });
    case "write":
      return writer.answerWrite(port, { path, size, sha256, mode });
    case "mkdir":
      return answerMkdir(port, room, path, mode);
    default:
      return Promise.reject(new FileRefused("bad_request", "the robot does not support this request"));
  }
}
