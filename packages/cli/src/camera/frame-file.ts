import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import type { Writable } from "node:stream";
import type { Clock } from "@roamfleet/clock";
import { drained } from "@roamfleet/protocol/drained";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";

/** File extensions of formats that ffmpeg encodes. Any other file is written as MJPEG, a sequence of JPEGs. */
const BY_FFMPEG = new Set([".mp4", ".mkv", ".mov", ".avi", ".webm", ".gif"]);
const LAST_LINE_CHARACTERS = 300;

/** Writes one picture atomically; `-` is stdout. */
export async function writeSnapshot(file: string, jpeg: Buffer, clock: Pick<Clock, "randomBytes">): Promise<void> {
  if (file === "-") return void (process.stdout.write(jpeg) || (await once(process.stdout, "drain")));
  const beside = `${file}.${Buffer.from(clock.randomBytes(4)).toString("hex")}.tmp`;
  try {
    const handle = await open(beside, "wx");
    try {
      await handle.writeFile(jpeg);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(beside, file);
  } catch (error) {
    await rm(beside, { force: true });
    throw cannotWrite(file, error);
  }
}

/** A file or stream to which frames are saved. */
export interface FrameFile {
  /** Resolves when the next frame can be written. */
  write(jpeg: Buffer): Promise<void>;
  /** Resolves when the file is complete. */
  end(): Promise<void>;
}

/** Opens a file for frames; `-` is stdout. The extension selects a format that ffmpeg encodes; otherwise the file is MJPEG. */
export function openFrameFile(file: string): Promise<FrameFile> {
  if (BY_FFMPEG.has(path.extname(file).toLowerCase())) return throughFfmpeg(file);
  return file === "-" ? Promise.resolve(ofStream(process.stdout, "stdout", false)) : openMjpeg(file);
}

async function openMjpeg(file: string): Promise<FrameFile> {
  const stream = createWriteStream(file);
  try {
    await once(stream, "open");
  } catch (error) {
    throw cannotWrite(file, error);
  }
  return ofStream(stream, file, true);
}

function ofStream(stream: Writable, name: string, closes: boolean): FrameFile {
  let failure: Error | undefined;
  stream.on("error", (error) => (failure = error));
  const check = (): void => {
    if (failure !== undefined) throw cannotWrite(name, failure);
  };
  return {
    write: async (jpeg) => {
      check();
      if (!stream.write(jpeg)) await drained(stream);
      check();
      // A stream that was destroyed without an error was closed by the program that reads it, such as a player.
      if (stream.destroyed) throw cannotWrite(name, new Error("the reader has closed it"));
    },
    end: async () => {
      check();
      if (closes) await new Promise<void>((resolve) => stream.end(() => resolve()));
      check();
    },
  };
}

/** Input options of ffmpeg: JPEGs on stdin, each with its arrival time as the timestamp. */
const INPUT = ["-f", "image2pipe", "-use_wallclock_as_timestamps", "1", "-c:v", "mjpeg", "-i", "pipe:0"];
/** Players require even width and height. */
const EVEN_SIDES = "scale=trunc(iw/2)*2:trunc(ih/2)*2";

function argumentsOf(file: string): string[] {
  const colors = path.extname(file).toLowerCase() === ".gif" ? "rgb8" : "yuv420p";
  return ["-hide_banner", "-loglevel", "error", "-y", ...INPUT, "-vf", EVEN_SIDES, "-pix_fmt", colors, path.resolve(file)];
}

async function throughFfmpeg(file: string): Promise<FrameFile> {
  // ffmpeg runs in a separate process group, so Ctrl-C does not end it: rf stops sending frames, and ffmpeg finishes the file.
  const child = spawn("ffmpeg", argumentsOf(file), { stdio: ["pipe", "ignore", "pipe"], detached: true });
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => (words = (words + chunk.toString("utf8")).slice(-LAST_LINE_CHARACTERS)));
  const ended = endOf(child);
  await Promise.race([once(child, "spawn"), ended]);
  const inner = ofStream(child.stdin, file, true);
  const checkEnd = async (end: Promise<number | string>): Promise<void> => {
    const code = await end;
    if (code === 0) return;
    if (code === "ENOENT")
      throw new Failure(EXIT.error, `${path.extname(file)} files need ffmpeg, which is not installed`, {
        hints: ["Install ffmpeg, or save as .mjpeg, which players and ffmpeg can read."],
      });
    throw new Failure(EXIT.error, `ffmpeg could not write ${file}: ${words.trim().split("\n").at(-1) ?? code}`);
  };
  if (child.pid === undefined) await checkEnd(ended);
  return {
    write: (jpeg) => inner.write(jpeg).catch(() => checkEnd(ended)),
    end: async () => {
      await inner.end().catch(() => {});
      await checkEnd(ended);
    },
  };
}

const endOf = (child: ChildProcess): Promise<number | string> =>
  new Promise((resolve) => {
    child.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code ?? "unknown"));
    child.once("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });

const cannotWrite = (file: string, error: unknown): Failure =>
  new Failure(EXIT.error, `cannot write ${file}: ${error instanceof Error ? error.message : String(error)}`);
