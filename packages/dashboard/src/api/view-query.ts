import { defaultParseSearch, defaultStringifySearch } from "@tanstack/react-router";
import { readTableChoice, type TableChoice } from "../ui/table-choice.ts";

/** What a saved view stores: the URL parameters of its page, and the settings of the page's table, if it has any. */
export interface ViewContent {
  search: object;
  table?: TableChoice | undefined;
}

/** The parameter of a view's query that contains the settings of the table. No page has a URL parameter with this name. */
const TABLE = "table";

/** Returns the query that stores a view. Equal views have equal queries. */
export function viewQuery({ search, table }: ViewContent): string {
  const sorted = Object.entries(search)
    .filter(([, value]) => value !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const settings = table === undefined ? {} : { [TABLE]: { hidden: table.hidden.toSorted(), is_dense: table.is_dense } };
  return defaultStringifySearch({ ...Object.fromEntries(sorted), ...settings }).slice(1);
}

/** Parses the query of a view. The page ignores invalid parameters. */
export function readView(query: string): ViewContent {
  const { [TABLE]: table, ...search } = defaultParseSearch(query) as Record<string, unknown>;
  return { search, table: table === undefined ? undefined : readTableChoice(JSON.stringify(table)) };
}

/** Whether a page shows what the query of a view stores. A query without settings of the table equals any settings. */
export function isSameView(query: string, shown: ViewContent): boolean {
  const view = readView(query);
  return viewQuery(view) === viewQuery({ search: shown.search, table: view.table === undefined ? undefined : shown.table });
}
