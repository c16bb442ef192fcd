/** The limit of a log search: decompression of the same batches from memory, and a search for the same text without regard to case. */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { serveRuns } from "../listener.ts";

const batches = Array.from({ length: Number(process.env.BATCHES) }, () =>
  deflateRawSync(Buffer.from(process.env.BATCH ?? "[]"), { level: 1 }),
);
const text = process.env.TEXT ?? "";

serveRuns(async () => {
  const found = batches.filter((batch) => inflateRawSync(batch).toString("utf8").toLowerCase().includes(text)).length;
  if (found > 0) throw new Error(`the text was found in ${found} batches, expected none`);
});
