import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";
import process from "node:process";
import { plain } from "./text.ts";

/** Prints the body of an answer byte for byte; for a terminal without what would act on it. */
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
