/** The limit of a read: one SELECT of the same rows by the bare driver. */
import { createServer } from "node:http";
import pg from "pg";

const client = new pg.Client(JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>);
await client.connect();
await client.query("set jit = off");
const query = { name: "rows", text: process.env.QUERY ?? "", values: JSON.parse(process.env.VALUES ?? "[]") as unknown[] };

createServer((request, response) => {
  if (request.url !== "/run") return void response.end("{}");
  client.query(query).then(
    ({ rowCount }) => response.end(JSON.stringify({ rows: rowCount })),
    (error: Error) => response.writeHead(500).end(error.message),
  );
}).listen(Number(process.env.PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
