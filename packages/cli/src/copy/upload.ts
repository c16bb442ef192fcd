import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { FileAnswer } from "@robofleet/protocol/link";
import { digestFile } from "../artifact.ts";
import { type FileSession, RobotRefused } from "./file-session.ts";
import type { Moved } from "./moved.ts";
import type { SteadySession } from "./steady-session.ts";

/** A frame to the service may be no longer than 64 KiB. */
const PIECE_BYTES = 60 * 1024;
/** So far ahead of what the robot has: enough for a long line, and no more than is good to lose when it is cut. */
const AHEAD_BYTES_MAX = 4 * 1024 * 1024;
const MODE_MASK = 0o777;

export interface Upload {
  /** File of this machine. */
  source: string;
  /** On the robot. */
  path: string;
  /** Told how far the file is. */
  on_bytes: (done: number) => void;
}

/** Copies one file to a robot. What a cut has left there is gone on with, also by the next call. */
export async function upload(steady: SteadySession, { source, path, on_bytes }: Upload): Promise<Moved> {
  const { sha256, size } = await digestFile(source, () => {});
  const file = await open(source, constants.O_RDONLY);
  try {
    const mode = (await file.stat()).mode & MODE_MASK;
    const request = { type: "write", path, size, sha256, mode } as const;
    let begun = 0;
    const once = (): Promise<Moved> =>
      steady.run(async (session) => {
        const answer = await session.ask(request, "ready", "done");
        steady.answered();
        if (answer.type === "done") {
          on_bytes(size);
          return { bytes: size, moved: 0, sha256, unchanged: true };
        }
        begun = answer.offset;
        return sendRest(session, steady, file, { size, offset: answer.offset, on_bytes });
      });
    return await once().catch((error: unknown) => {
      // Perhaps what was there before was not of this file after all.
      if (error instanceof RobotRefused && error.code === "checksum" && begun > 0) return once();
      throw error;
    });
  } finally {
    await file.close();
  }
}

async function sendRest(
  session: FileSession,
  steady: SteadySession,
  file: FileHandle,
  { size, offset, on_bytes }: { size: number; offset: number; on_bytes: (done: number) => void },
): Promise<Moved> {
  const taken = new Taken(session, offset, (bytes) => {
    on_bytes(bytes);
    steady.progressed();
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

/** What the robot says while it is sent a file: how much it has taken, and in the end that it has it. It may also say no in the middle. */
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

  /** Resolves when the robot has so many bytes, or no more will come of it. */
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
