import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { FileAnswer } from "@roamfleet/protocol/link";
import { digestFile } from "../artifact.ts";
import { type FileResult, type FileSession, RobotRefused, type ReconnectingSession } from "./file-session.ts";

/** File content per message, in bytes: a frame to the service has at most 64 KiB. */
const PIECE_BYTES = 60 * 1024;
/**
 * Maximum bytes that were sent and not acknowledged by the robot yet. This is enough for a connection with high latency. A disconnect loses
 * no more than this.
 */
const AHEAD_BYTES_MAX = 4 * 1024 * 1024;
const MODE_MASK = 0o777;

export interface Upload {
  /** Path on this machine. */
  source: string;
  /** Path on the robot. */
  path: string;
  /** Called with the progress of the file. */
  on_bytes: (done: number) => void;
}

/** Copies one file to a robot. A partial upload is resumed, also by a later call. */
export async function upload(connection: ReconnectingSession, { source, path, on_bytes }: Upload): Promise<FileResult> {
  const { sha256, size } = await digestFile(source, () => {});
  const file = await open(source, constants.O_RDONLY);
  try {
    const mode = (await file.stat()).mode & MODE_MASK;
    const request = { type: "write", path, size, sha256, mode } as const;
    let begun = 0;
    const once = (): Promise<FileResult> =>
      connection.run(async (session) => {
        const answer = await session.ask(request, "ready", "done");
        connection.answered();
        if (answer.type === "done") {
          on_bytes(size);
          return { bytes: size, moved: 0, sha256, unchanged: true };
        }
        begun = answer.offset;
        return sendRest(session, connection, file, { size, offset: answer.offset, on_bytes });
      });
    return await once().catch((error: unknown) => {
      // Repeat a resumed upload once, because the partial file on the robot may have belonged to different content.
      if (error instanceof RobotRefused && error.code === "checksum" && begun > 0) return once();
      throw error;
    });
  } finally {
    await file.close();
  }
}

async function sendRest(
  session: FileSession,
  connection: ReconnectingSession,
  file: FileHandle,
  { size, offset, on_bytes }: { size: number; offset: number; on_bytes: (done: number) => void },
): Promise<FileResult> {
  const taken = new Taken(session, offset, (bytes) => {
    on_bytes(bytes);
    connection.progressed();
  });
  on_bytes(offset);
  for (let at = offset; at < size && !taken.over;) {
    await taken.upTo(at - AHEAD_BYTES_MAX);
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, size - at));
    const { bytesRead } = await file.read(piece, 0, piece.length, at);
    if (bytesRead === 0) break;
    await session.send(piece.subarray(0, bytesRead));
    at += bytesRead;
  }
  if (!taken.over) await session.say({ type: "end" });
  const { bytes, moved, sha256 } = await taken.done;
  on_bytes(bytes);
  return { bytes, moved, sha256, unchanged: false };
}

/** Reads the robot's responses during an upload: acknowledged bytes, then completion. The robot may refuse the upload at any time. */
class Taken {
  readonly done: Promise<Extract<FileAnswer, { type: "done" }>>;
  over = false;
  #bytes: number;
  #wake: (() => void) | undefined;

  constructor(session: FileSession, from: number, on_bytes: (bytes: number) => void) {
    this.#bytes = from;
    this.done = this.#hear(session, on_bytes).finally(() => {
      this.over = true;
      this.#wake?.();
    });
    this.done.catch(() => {});
  }

  /** Resolves when the robot has acknowledged this many bytes, or will not acknowledge more. */
  async upTo(bytes: number): Promise<void> {
    while (this.#bytes < bytes && !this.over) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  async #hear(session: FileSession, on_bytes: (bytes: number) => void): Promise<Extract<FileAnswer, { type: "done" }>> {
    for (;;) {
      const answer = await session.hear("took", "done");
      if (answer.type === "done") return answer;
      this.#bytes = answer.bytes;
      on_bytes(answer.bytes);
      this.#wake?.();
    }
  }
}
