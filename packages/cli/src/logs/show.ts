import type { Body, Client } from "@roamfleet/sdk";
import type { Context } from "../context.ts";
import { filterQuery, type LogOptions } from "./options.ts";

export type LogRecord = Body<"listRobotLogs">["items"][number];
type LogPage = Body<"listRobotLogs">;

const PAGE_RECORDS_MAX = 1_000;
/** Records shown without --limit, also with --since. */
const SHOWN = 200;
const SHOWN_SINCE = 10_000;

/** Returns the newest matching records, oldest first; a search is answered by the service in parts. */
export async function readLogs(
  context: Context,
  client: Client,
  name: "listRobotLogs" | "listFleetLogs",
  id: string,
  options: LogOptions,
): Promise<LogPage> {
  const filter = filterQuery(options, context.now());
  const list = (query: object): Promise<LogPage> => client[name]({ params: { id }, query });
  // Without filters, one request without a query.
  if (options.limit === undefined && Object.values(filter).every((value) => value === undefined)) return await list({});
  const wanted = options.limit ?? (options.since === undefined ? SHOWN : SHOWN_SINCE);
  let items: LogRecord[] = [];
  let next_cursor: string | null = null;
  do {
    const cursor = next_cursor === null ? {} : { cursor: next_cursor };
    const page = await list({ ...filter, limit: Math.min(PAGE_RECORDS_MAX, wanted - items.length), ...cursor });
    items = [...page.items, ...items];
    ({ next_cursor } = page);
  } while (next_cursor !== null && items.length < wanted);
  return { items, next_cursor };
}

/** Prints whether older records exist. */
export function noteMore({ out }: Context, { items, next_cursor }: LogPage, options: LogOptions): void {
  if (items.length === 0)
    out.note(options.since === undefined && options.grep === undefined ? "No log records yet." : "No matching log records.");
  else if (next_cursor !== null && options.limit === undefined && options.since !== undefined)
    out.note("Older records exist: use --limit, --until or --export.");
}
