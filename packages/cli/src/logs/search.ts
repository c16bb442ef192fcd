import type { Body, Client } from "@roamfleet/sdk";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { filterQuery, type LogOptions } from "./records.ts";

export interface SearchOptions extends Omit<LogOptions, "follow" | "export"> {
  all?: boolean;
  site?: string;
  fleet?: string;
  label?: string[];
}

type FoundLogs = Body<"searchLogs">;

const PAGE_RECORDS_MAX = 1_000;
/** Maximum records shown without --limit. */
const SHOWN = 1_000;

/** Returns the newest matching records, newest first. The service searches a part of the period per request, so this sends several. */
export async function searchLogs(
  { now, out }: Pick<Context, "now" | "out">,
  client: Client,
  options: SearchOptions,
  labels: string[] | undefined,
): Promise<FoundLogs> {
  const { all, site: site_id, fleet: fleet_id, limit: wanted = SHOWN } = options;
  if (all !== true && site_id === undefined && fleet_id === undefined && labels === undefined)
    throw usage("rf logs needs --site, --fleet, --label or --all", "For one robot: rf robots logs <id>");
  const filter = { ...filterQuery(options, now()), site_id, fleet_id, label: labels };
  const items: FoundLogs["items"] = [];
  let page: FoundLogs | undefined;
  do {
    const cursor: string | undefined = page?.next_cursor ?? undefined;
    page = await client.searchLogs({ query: { ...filter, limit: Math.min(PAGE_RECORDS_MAX, wanted - items.length), cursor } });
    items.push(...page.items);
    if (page.searched_back_to !== null && items.length < wanted) out.note(`Searched back to ${page.searched_back_to}; continuing.`);
  } while (page.next_cursor !== null && items.length < wanted);
  return { ...page, items };
}
