/** The limit of log ingestion: JSON.parse of each batch and one COPY of its bytes into a table. */
import { createServer } from "node:http";
import pg from "pg";
import { from as copyFrom } from "pg-copy-streams";

const client = new pg.Client(JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>);
await client.connect();
await client.query("create unlogged table if not exists bench_log (batch text)");
const batch = Buffer.from(process.env.BATCH ?? "{}");

async function run(): Promise<void> {
  for (let i = 0; i < Number(process.env.BATCHES); i += 1) {
    JSON.parse(batch.toString("utf8"));
    const stream = client.query(copyFrom("copy bench_log from stdin with (format csv, quote e'\\x01', delimiter e'\\x02')"));
    await new Promise<void>((resolve, reject) => {
      stream.on("finish", resolve).on("error", reject);
      stream.end(Buffer.concat([batch, Buffer.from("\n")]));
    });
  }
  await client.query("truncate bench_log");
}

createServer((request, response) => {
  if (request.url !== "/run") return void response.end("{}");
  run().then(
    () => response.end("{}"),
    (error: Error) => response.writeHead(500).end(error.message),
  );
}).listen(Number(process.env.PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
