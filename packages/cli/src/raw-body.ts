import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";
import process from "node:process";
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
