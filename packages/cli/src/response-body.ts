import { createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ApiError, type Client, type RequestArguments } from "@roamfleet/sdk";
import { plain } from "./text.ts";

/** Prints a response body byte for byte; on a terminal, control characters are made visible. */
export async function printBody(response: Response): Promise<void> {
  if (response.body === null) return;
  const source = Readable.fromWeb(response.body);
  const visible = (text: string): string => text.split("\n").map(plain).join("\n");
  if (process.stdout.isTTY) source.setEncoding("utf8");
  const sink = new Writable({
    decodeStrings: false,
    write: (chunk: Buffer | string, _encoding, done) =>
      void process.stdout.write(typeof chunk === "string" ? visible(chunk) : chunk, () => done()),
  });
  await pipeline(source, sink);
}

/** Requests a response that is not JSON. Throws ApiError for an error status. */
export async function requestBody(
  client: Client,
  path: string,
  args: RequestArguments,
): Promise<Response & { body: NonNullable<Response["body"]> }> {
  const response = await client.request("GET", path, args);
  if (response.ok && response.body !== null) return response as Awaited<ReturnType<typeof requestBody>>;
  const body: unknown = await response.json().catch(() => undefined);
  throw new ApiError({ status: response.status, headers: response.headers, body });
}

/** Headers that request JSON lines. */
export const JSON_LINES = { accept: "application/x-ndjson, application/json" };

/**
 * Writes a file atomically, readable by its owner only. `write` fills a `.part` file in the same directory, which is deleted if `write`
 * rejects. A device or pipe is written directly.
 */
export async function writeWhole(file: string, write: (sink: Writable) => Promise<unknown>): Promise<void> {
  const there = await stat(file).catch(() => undefined);
  if (there !== undefined && !there.isFile() && !there.isDirectory()) return void (await write(createWriteStream(file)));
  const part = `${file}.part`;
  await rm(part, { force: true });
  try {
    await write(createWriteStream(part, { mode: 0o600, flags: "wx" }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
