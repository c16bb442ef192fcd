import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { MAX_ID, PAGE_ROWS_MAX, pages, readHistory } from "../../kernel/page.ts";
import { type Call, ndjson, oneLine, serve } from "../../kernel/serve.ts";
import { parseTimes, wireTimes } from "../../kernel/time.ts";
import { readNames } from "./store-names.ts";
import { entriesAfter, type EntryFilter, type EntryRow, newestEntries } from "./store.ts";

/** The org id of audit entries about the whole service. */
const SERVICE = "";

type AuditQuery = Call<typeof routes.listAudit>["query"];

export function auditRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listAudit, (_, { caller, query, db }) => list(db, routes.listAudit.name, caller.org_id, query));
  serve(http, plane, routes.listServiceAudit, (_, { query, db }) => list(db, routes.listServiceAudit.name, SERVICE, query));
  serve(http, plane, routes.exportAudit, async (_, { caller, query, db }) =>
    ndjson(lines(db, caller.org_id, parseTimes(query)), "audit.ndjson"),
  );
}

const list = (db: Db, route: string, org_id: string, query: AuditQuery) =>
  readHistory(query, [route, org_id], async ({ after, limit }) => {
    const entries = await newestEntries(db, org_id, parseTimes(query), after ?? MAX_ID, limit);
    const names = await readNames(
      db,
      org_id,
      entries.flatMap(({ object_id }) => object_id ?? []),
    );
    return entries.map((entry) => ({ ...entry, object_name: names.get(entry.object_id ?? "") ?? null }));
  });

/** Yields the entries as lines. Reads one page at a time, only as fast as the client reads. */
async function* lines(db: Db, org_id: string, filter: EntryFilter): AsyncGenerator<string> {
  const read = (last: EntryRow | undefined) => entriesAfter(db, org_id, filter, last?.id ?? "", PAGE_ROWS_MAX);
  for await (const rows of pages(PAGE_ROWS_MAX, read)) yield rows.map((row) => `${oneLine(JSON.stringify(wireTimes(row)))}\n`).join("");
}
