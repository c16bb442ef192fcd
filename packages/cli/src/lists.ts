import type { Arguments, Body, Client, ListRouteName } from "@roamfleet/sdk";
import type { Command } from "commander";
import { wholeNumber } from "./command.ts";
import type { Context } from "./context.ts";
import type { Column } from "./output.ts";

const PAGE_ROWS_MAX = 1_000;

export interface LimitOption {
  limit?: number;
}

export const limitOption = (command: Command): Command => command.option("--limit <n>", "Show at most this many rows", wholeNumber(1));

/** Returns whether a query filters rows. If it does, an empty result does not mean that no objects exist. */
export const isFiltered = (query: Readonly<Record<string, unknown>>): boolean => Object.values(query).some((value) => value !== undefined);

/** Reads a whole list as one response: follows pages to the end or until there are `limit` rows. */
export async function readList<N extends ListRouteName>(
  client: Client,
  name: N,
  limit: number | undefined,
  args: Arguments<N>,
): Promise<Body<N>> {
  const items: unknown[] = [];
  let next_cursor: string | null = null;
  const query = limit === undefined ? args.query : { ...args.query, limit: Math.min(limit, PAGE_ROWS_MAX) };
  // The argument type of a generic route is too complex for the compiler to infer.
  const { pages } = client as unknown as {
    pages: (name: N, args: unknown) => AsyncGenerator<{ items: unknown[]; next_cursor: string | null }>;
  };
  for await (const page of pages(name, { ...args, query })) {
    items.push(...page.items);
    next_cursor = page.next_cursor;
    if (limit !== undefined && items.length >= limit) break;
  }
  return { items: limit === undefined ? items : items.slice(0, limit), next_cursor } as Body<N>;
}

interface ListView<T> {
  limit?: number | undefined;
  /** Client that sends the requests. Default: a client with the user's token. */
  client?: Client;
  /** Printed instead of a table without rows. */
  empty?: string;
  /** Printed instead of `empty` if `filter` restricts the rows. */
  no_match?: string;
  /** Filters that may restrict the rows. Default: the query. */
  filter?: Readonly<Record<string, unknown>>;
  columns: readonly Column<T>[];
}

/** Prints a whole list, or its first `limit` rows, as a table. */
export async function printList<N extends ListRouteName>(
  context: Context,
  name: N,
  { client, limit, empty, no_match = empty, filter, columns, ...rest }: ListView<Body<N>["items"][number]> & Arguments<N>,
): Promise<void> {
  const args = rest as unknown as Arguments<N>;
  const answer: { items: unknown[] } = await readList(client ?? (await context.client()), name, limit, args);
  await context.out.result(answer, () => {
    const note = isFiltered(filter ?? args.query ?? {}) ? no_match : empty;
    if (answer.items.length === 0 && note !== undefined) return context.out.note(note);
    return context.out.table(answer.items as Body<N>["items"], columns);
  });
}
