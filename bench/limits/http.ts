/**
 * The limit of an HTTP route: node:http and one prepared statement that finds the token and does the route's work, without validation and
 * rate limits. The difference between our server and this limit is the cost of everything else.
 */
import { hash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { Pool } from "pg";
import { findRobot } from "../../packages/server/src/features/robots/store.ts";
import { listRobots } from "../../packages/server/src/features/robots/store-list.ts";

const database = JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>;
const pool = new Pool({ ...database, max: 10 });
const bearer = (header: string | undefined): Buffer => hash("sha256", header?.slice(7) ?? "", "buffer");

/** Wraps the server's own statement with the token's org as a parameter, so that the limit does the same database work. */
function withToken(statement: { text: string }): string {
  return `select own.* from credential c cross join lateral (${statement.text.replaceAll("$1", "c.org_id")}) own where c.hash = $1 and c.revoked_at is null`;
}

/** Returns the statement instead of executing it. */
const capture = { maybe: (statement: unknown) => statement, many: (statement: unknown) => statement } as unknown as Parameters<
  typeof findRobot
>[0];
const ONE = { name: "one", text: withToken((await findRobot(capture, "org", "robot")) as unknown as { text: string }) };
const everywhere = { org_id: "org", grants: [{ role: "admin" as const, scopes: [] }], limit: [] } as unknown as Parameters<
  typeof listRobots
>[1];
const list = (await listRobots(capture, everywhere, { labels: [] }, { sort: "newest", after: null, limit: 101 })) as unknown as {
  text: string;
  values: unknown[];
};
const LIST = { name: "list", text: withToken(list) };
const INSERT = {
  name: "insert",
  text: `insert into site (org_id, id, name, created_at, updated_at) select c.org_id, $2, $3, $4, $4 from credential c where c.hash = $1 and c.revoked_at is null returning *`,
};

const server = createServer((request, response) => {
  const answer = (status: number, body: unknown): void => {
    const text = JSON.stringify(body);
    response.writeHead(status, { "content-type": "application/json; charset=utf-8", "content-length": Buffer.byteLength(text) });
    response.end(text);
  };
  const path = request.url ?? "";
  const token = bearer(request.headers.authorization);
  const failed = (error: Error): void => answer(500, { error: { code: "internal_server_error", message: error.message } });
  if (path === "/readyz") return answer(200, {});
  if (path.startsWith("/api/robots/"))
    return void pool
      .query({ ...ONE, values: [token, path.slice(12)] })
      .then(({ rows }) => answer(200, { data: rows[0] as unknown }), failed);
  if (path.startsWith("/api/robots"))
    return void pool.query({ ...LIST, values: [token, ...list.values.slice(1)] }).then(({ rows }) => answer(200, { items: rows }), failed);
  let text = "";
  request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  request.on("end", () => {
    const { name } = JSON.parse(text) as { name: string };
    pool
      .query({ ...INSERT, values: [token, `site_${randomBytes(13).toString("hex")}`, name, new Date()] })
      .then(({ rows }) => answer(201, { data: rows[0] as unknown }), failed);
  });
});
server.listen(Number(process.env.PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
