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

interface Captured {
  text: string;
  values: unknown[];
}

/**
 * Wraps the server's own statement with the token's org instead of the parameter ORG, so that the limit does the same database work. The
 * first parameter becomes the token.
 */
function withToken({ text, values }: Captured): Captured {
  const rest: unknown[] = [];
  const own = text.replaceAll(/\$(\d+)/g, (_, number: string) => {
    const value = values[Number(number) - 1];
    return value === ORG ? "c.org_id" : `$${rest.push(value) + 1}`;
  });
  return {
    text: `select own.* from credential c cross join lateral (${own}) own where c.hash = $1 and c.revoked_at is null`,
    values: rest,
  };
}

/** Returns the statement instead of executing it. */
const capture = { maybe: (statement: unknown) => statement, many: (statement: unknown) => statement } as unknown as Parameters<
  typeof findRobot
>[0];
const ORG = "org";
const ONE = { name: "one", text: withToken((await findRobot(capture, ORG, "robot")) as unknown as Captured).text };
const everywhere = { org_id: ORG, grants: [{ role: "admin" as const, scopes: [] }], limit: [] } as unknown as Parameters<
  typeof listRobots
>[1];
const list = await listRobots(capture, everywhere, { labels: [] }, { sort: "newest", after: null, limit: 101 });
const LIST = { name: "list", ...withToken(list as unknown as Captured) };
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
    return void pool.query({ ...LIST, values: [token, ...LIST.values] }).then(({ rows }) => answer(200, { items: rows }), failed);
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
