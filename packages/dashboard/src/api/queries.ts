import type { Body, JsonRouteName, ListRouteName, Rest } from "@roamfleet/sdk/browser";
import { infiniteQueryOptions, queryOptions, useMutation } from "@tanstack/react-query";
import { isOutage, OUTAGE_REASON } from "../ui/outage.ts";
import { tellError, tellDone } from "../ui/toasts.ts";
import { api } from "./client.ts";
import { randomId } from "./random-id.ts";
import { readAgain } from "./read-again.ts";

type Args = { params?: Record<string, string>; query?: Record<string, unknown> } | undefined;

/** Parts without a value are no part of the key. */
function keyOf(args: Args): Record<string, unknown> {
  const { params, query } = JSON.parse(JSON.stringify(args ?? {})) as NonNullable<Args>;
  return { ...(params === undefined ? {} : { params }), ...(query === undefined ? {} : { query }) };
}

/** Options of useQuery for a route: `useQuery(query("getRobot", { params: { id } }))`. The key begins with its name. */
export function query<N extends JsonRouteName>(name: N, ...rest: Rest<N>) {
  return queryOptions({
    queryKey: [name, keyOf(rest[0] as Args)] as const,
    queryFn: async ({ signal }): Promise<Body<N>> => (await api.call(name, ...([{ ...rest[0], signal }] as unknown as Rest<N>))).body,
  });
}

/** Options of useInfiniteQuery for a list; its pages follow the cursor. Rows: `rowsOf(result.data)`. */
export function pagesQuery<N extends ListRouteName>(name: N, ...rest: Rest<N>) {
  const args = rest[0] as Args;
  return infiniteQueryOptions({
    queryKey: [name, keyOf(args), "pages"] as const,
    queryFn: async ({ pageParam, signal }): Promise<Body<N>> => {
      const page = { ...args, query: { ...args?.query, cursor: pageParam }, signal };
      return (await api.call(name, ...([page] as unknown as Rest<N>))).body;
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last as { next_cursor: string | null }).next_cursor ?? undefined,
  });
}

/** The rows of all pages that were loaded. */
export const rowsOf = <T>(data: { pages: readonly { items: readonly T[] }[] } | undefined): T[] =>
  data?.pages.flatMap(({ items }) => [...items]) ?? [];

export interface ActionOptions<N extends JsonRouteName> {
  /** Said when it is done. */
  done?: string | ((body: Body<N>) => string);
  onSuccess?: (body: Body<N>) => void;
  /** The page shows the error itself, beside what caused it. */
  quiet?: boolean;
}

/**
 * A route that changes something, as a mutation. It is sent with an Idempotency-Key of its own, so that a try whose answer
 * got lost does nothing twice. What it made stale is read again: by the events, and at once for whoever asked.
 */
export function useAction<N extends JsonRouteName>(name: N, options: ActionOptions<N> = {}) {
  return useMutation({
    mutationFn: async (args: Rest<N>[0]): Promise<Body<N>> => {
      if (isOutage()) throw new Error(OUTAGE_REASON);
      return (await api.call(name, ...([{ ...args, idempotency_key: randomId() }] as unknown as Rest<N>))).body;
    },
    onSuccess: (body) => {
      readAgain();
      if (options.done !== undefined) tellDone(typeof options.done === "string" ? options.done : options.done(body));
      options.onSuccess?.(body);
    },
    onError: (error) => {
      if (options.quiet !== true) tellError(error);
    },
  });
}
