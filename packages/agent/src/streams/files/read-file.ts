import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { FRAME_PAYLOAD_BYTES_MAX } from "@roamfleet/protocol/link";
import { answer, modeOf, versionOf } from "./look.ts";
import { type MessagePort, PortClosed } from "./message-port.ts";
import { type FileRoom, findPlace, openRegular, type Place } from "./place.ts";
import { FileRefused } from "./refused.ts";

/** Buffer for bytes that are hashed but not sent. */
const HASH_BYTES = 1024 * 1024;
/** The tag of a data message. */
const DATA = 0;

export interface ReadRequest {
  path: unknown;
  /** Bytes that the client already has. */
  offset: unknown;
  /** Version of the file that these bytes are from. */
  version: unknown;
}

/** Sends a file from an offset on, and finally the hash of the whole file, including the bytes before the offset. */
export async function answerRead(port: MessagePort, room: FileRoom, request: ReadRequest): Promise<void> {
  const place = await findPlace(request.path, room);
  try {
    const { file, stats } = await openRegular(place, room);
    try {
      const version = versionOf(stats);
      const { size } = stats;
      const offset = Number(request.offset ?? 0);
      if (!Number.isSafeInteger(offset) || offset < 0) throw new FileRefused("bad_request", "offset is a number of bytes");
      if (offset > size || (request.version !== undefined && request.version !== version)) throw changed(place);
      await answer(port, { type: "reading", path: place.path, size, mode: modeOf(stats), version, offset });
      const hash = createHash("sha256");
      await hashPart(file, hash, offset);
      await sendFrom(file, port, hash, offset, size, place);
      // Bytes of two versions must not be mixed.
      if (versionOf(await file.stat()) !== version) throw changed(place);
      await answer(port, { type: "done", path: place.path, bytes: size, moved: size - offset, sha256: hash.digest("hex") });
    } finally {
      await file.close();
    }
  } finally {
    await place.close();
  }
}

const changed = ({ path }: Place): FileRefused => new FileRefused("changed", `${path}: the file was changed meanwhile`);

/** Adds the first bytes of a file to a hash. */
export async function hashPart(file: FileHandle, hash: { update(bytes: Uint8Array): unknown }, bytes: number): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(HASH_BYTES, Math.max(1, bytes)));
  for (let at = 0; at < bytes;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) return;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}

/** Sends one frame at a time, no faster than the other end reads. */
async function sendFrom(
  file: FileHandle,
  port: MessagePort,
  hash: { update(bytes: Uint8Array): unknown },
  from: number,
  size: number,
  place: Place,
): Promise<void> {
  for (let at = from; at < size;) {
    const message = Buffer.allocUnsafe(Math.min(FRAME_PAYLOAD_BYTES_MAX, size - at + 1));
    message[0] = DATA;
    const { bytesRead } = await file.read(message, 1, message.length - 1, at);
    if (bytesRead === 0) throw changed(place);
    hash.update(message.subarray(1, 1 + bytesRead));
    if (!(await port.write(message.subarray(0, 1 + bytesRead)))) throw new PortClosed();
    at += bytesRead;
  }
}
