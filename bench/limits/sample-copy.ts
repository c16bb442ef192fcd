/** The limit of storing samples as rows: one COPY for each robot, of lines that are ready. */
import { serveCopyRuns } from "./copy-runs.ts";

const rows = Buffer.from(process.env.ROWS ?? "");

await serveCopyRuns({
  create: "create table if not exists bench_sample (name text, at timestamptz, value float8)",
  table: "bench_sample",
  options: "",
  count: Number(process.env.ROBOTS),
  next: () => rows,
});
