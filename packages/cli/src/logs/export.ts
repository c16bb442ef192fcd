import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Client } from "@roamfleet/sdk";
import type { Context } from "../context.ts";
import { bytes as humanBytes } from "../duration.ts";
import { JSON_LINES, printBody, requestBody, writeWhole } from "../response-body.ts";
import { filterQuery, type LogOptions } from "./records.ts";

/** Writes every record to a file, which appears only when complete; `-` is stdout. */
export async function exportLogs(
  context: Context,
  client: Client,
  of: "robots" | "fleets",
  id: string,
  options: LogOptions,
): Promise<void> {
  const file = options.export ?? "-";
  const query = filterQuery(options, context.now());
  const response = await requestBody(client, `/api/${of}/${encodeURIComponent(id)}/logs/export`, { query, headers: JSON_LINES });
  if (file === "-") return await printBody(response);
  let [bytes, records] = [0, 0];
  const count = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length;
      for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", end + 1)) records += 1;
      done(null, chunk);
    },
  });
  const body = Readable.fromWeb(response.body);
  await writeWhole(file, (sink) => pipeline(body, count, sink));
  await context.out.result({ data: { file, records, bytes } }, () =>
    context.out.note(`${records} ${records === 1 ? "record" : "records"}, ${humanBytes(bytes)}, in ${file}`),
  );
}
