/** The limit of storing samples as rows: one COPY for each robot, of lines that are ready. */
import { createServer } from "node:http";
import pg from "pg";
import { from as copyFrom } from "pg-copy-streams";

const client = new pg.Client(JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>);
await client.connect();
await client.query("create table if not exists bench_sample (name text, at timestamptz, value float8)");
const rows = Buffer.from(process.env.ROWS ?? "");

async function run(): Promise<void> {
  for (let i = 0; i < Number(process.env.ROBOTS); i += 1) {
    const stream = client.query(copyFrom("copy bench_sample from stdin"));
    await new Promise<void>((resolve, reject) => {
      stream.on("finish", resolve).on("error", reject);
      stream.end(rows);
    });
  }
  await client.query("truncate bench_sample");
}

createServer((request, response) => {
  if (request.url !== "/run") return void response.end("{}");
  run().then(
    () => response.end("{}"),
    (error: Error) => response.writeHead(500).end(error.message),
  );
}).listen(Number(process.env.PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
