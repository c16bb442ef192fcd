/** The limit of a log search: decompression of the same batches from memory, and a search for the same text without regard to case. */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { listener } from "../listener.ts";

const batches = Array.from({ length: Number(process.env.BATCHES) }, () =>
  deflateRawSync(Buffer.from(process.env.BATCH ?? "[]"), { level: 1 }),
);
const text = process.env.TEXT ?? "";

listener((request, response) => {
  let found = 0;
  if (request.url === "/run")
    for (const batch of batches) if (inflateRawSync(batch).toString("utf8").toLowerCase().includes(text)) found += 1;
  response.end(JSON.stringify({ found }));
});
