import { Readable } from "node:stream";
import { type AuditEntry, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { BEHIND_ALL_IDS, PAGE_ROWS_MAX, readPage } from "../../kernel/page.ts";
import { Answer, type Call, serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { entriesAfter, type EntryFilter, type EntryRow, newestEntries } from "./store.ts";

/** Entries of an answer when the request says neither `limit` nor `cursor`. */
const ENTRIES_SHOWN = 200;
/** Entries about the whole service have an empty org id. */
const SERVICE = "";

type AuditQuery = Call<typeof routes.listAudit>["query"];

export function auditRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listAudit, (_, { caller, query, db }) => list(db, routes.listAudit.name, caller.org_id, query));
  serve(http, plane, routes.listServiceAudit, (_, { query, db }) => list(db, routes.listServiceAudit.name, SERVICE, query));
  serve(
    http,
    plane,
    routes.exportAudit,
    async (_, { caller, query, db }) =>
      new Answer<never>(200, Readable.from(lines(db, caller.org_id, readFilter(query))), {
        "content-type": "application/x-ndjson",
        "content-disposition": 'attachment; filename="audit.ndjson"',
      }),
  );
}

const list = (db: Db, route: string, org_id: string, query: AuditQuery) =>
  readPage(
    { ...query, limit: query.limit ?? (query.cursor === undefined ? ENTRIES_SHOWN : PAGE_ROWS_MAX) },
    [route, org_id],
    ({ after, limit }) => newestEntries(db, org_id, readFilter(query), after ?? BEHIND_ALL_IDS, limit),
    ({ id }) => id,
    toWire,
  );

const readFilter = ({ since, until, action, actor_id, token_id, object_id, outcome }: AuditQuery): EntryFilter => ({
  since: since === undefined ? undefined : parseTime(since),
  until: until === undefined ? undefined : parseTime(until),
  action,
  actor_id,
  token_id,
  object_id,
  outcome,
});

const toWire = (row: EntryRow): AuditEntry => ({ ...row, at: wireTime(row.at) });

/** Escapes the control characters and line separators that JSON leaves as they are but some readers treat as line ends. */
const oneLine = (entry: AuditEntry): string =>
  JSON.stringify(entry).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** Reads one page at a time, only as fast as the client reads. */
async function* lines(db: Db, org_id: string, filter: EntryFilter): AsyncGenerator<string> {
  for (let after = ""; ;) {
    const rows = await entriesAfter(db, org_id, filter, after, PAGE_ROWS_MAX);
    if (rows.length > 0) yield `${rows.map((row) => oneLine(toWire(row))).join("\n")}\n`;
    if (rows.length < PAGE_ROWS_MAX) return;
    after = rows.at(-1)?.id ?? after;
  }
}
