/** The limit of log ingestion: JSON.parse of each batch and one COPY of its bytes into a table. */
import { serveCopyRuns } from "./copy-runs.ts";

const batch = Buffer.from(process.env.BATCH ?? "{}");

await serveCopyRuns({
  create: "create unlogged table if not exists bench_log (batch text)",
  table: "bench_log",
  options: "with (format csv, quote e'\\x01', delimiter e'\\x02')",
  count: Number(process.env.BATCHES),
  next: () => {
    JSON.parse(batch.toString("utf8"));
    return Buffer.concat([batch, Buffer.from("\n")]);
  },
});
