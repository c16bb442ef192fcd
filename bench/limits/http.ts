/**
 * The limit of an HTTP route: a server with only node:http that answers by one prepared statement. The statement finds the token and does the
 * route's work. There is no validation and no rate limit. What our server takes beyond this limit is the cost of all its other work.
 */
import { hash } from "node:crypto";
import { Pool } from "pg";
import { listingRobots } from "../../packages/server/src/features/robots/store-list.ts";
import { ALL_PARTS, findingRobot } from "../../packages/server/src/features/robots/store-shown.ts";
import { answer, answerError, listener } from "../listener.ts";

const database = JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>;
const pool = new Pool({ ...database, max: 10 });
let ids = 0;
/** Increasing, as our server's ids are: indexes grow at their end. */
const id = (prefix: string): string => `${prefix}_${(ids += 1).toString().padStart(26, "0")}`;
const bearer = (header: string | undefined): Buffer => hash("sha256", header?.slice(7) ?? "", "buffer");

/**
 * Wraps the server's own statement with the token's org instead of the parameter ORG, so that the limit does the same database work. The
 * first parameter becomes the token.
 */
function withToken({ text, values }: Pick<ReturnType<typeof findingRobot>, "text" | "values">): { text: string; values: unknown[] } {
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

const ORG = "org";
const ONE = { name: "one", text: withToken(findingRobot(ORG, "robot")).text };
const everywhere = { org_id: ORG, grants: [{ role: "admin" as const, scopes: [] }], limit: [] };
const list = listingRobots(everywhere, { labels: [] }, { sort: "newest", after: null, limit: 101 }, ALL_PARTS);
const LIST = { name: "list", ...withToken(list) };
/** Writes the same two rows as our server, the site and its audit entry, durably, in one transaction of one statement. */
const INSERT = {
  name: "insert",
  text: `
    with caller as (select org_id, id from credential where hash = $1 and revoked_at is null),
      audit as (
        insert into audit_entry (org_id, id, at, actor, token_id, action, method, path, object_id, status, ip, request_id, data)
        select org_id, $5, $4, $6, id, 'createSite', 'POST', '/api/sites', $2, 201, '127.0.0.1', $7, '{}' from caller)
    insert into site (org_id, id, name, created_at, updated_at) select org_id, $2, $3, $4, $4 from caller returning *`,
};
const ACTOR = JSON.stringify({ type: "user", id: "usr_00000000000000000000000000", name: "bench" });

listener((request, response) => {
  const path = request.url ?? "";
  const token = bearer(request.headers.authorization);
  const failed = (error: Error): void => answerError(response, error);
  if (path === "/readyz") return answer(response, 200, {});
  if (path.startsWith("/api/robots/"))
    return void pool
      .query({ ...ONE, values: [token, path.slice(12)] })
      .then(({ rows }) => answer(response, 200, { data: rows[0] as unknown }), failed);
  if (path.startsWith("/api/robots"))
    return void pool.query({ ...LIST, values: [token, ...LIST.values] }).then(({ rows }) => answer(response, 200, { items: rows }), failed);
  let text = "";
  request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  request.on("end", () => {
    const { name } = JSON.parse(text) as { name: string };
    pool
      .query({ ...INSERT, values: [token, id("site"), name, new Date(), id("aud"), ACTOR, id("req")] })
      .then(({ rows }) => answer(response, 201, { data: rows[0] as unknown }), failed);
  });
});
