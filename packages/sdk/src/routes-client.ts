import { fillPath, paths, type RouteName } from "@roamfleet/protocol/paths";
import { type Connection, credentialHeaders, sessionHeaders, urlOf, withDeadline, withRetries } from "./connection.ts";
import { readJson } from "./incoming.ts";
import type { Query } from "./options.ts";
import type { Answer, RequestArguments, RoutesClient } from "./types.ts";

/** Arguments of any route, not yet typed by the route's name. */
interface AnyArguments {
  params?: Record<string, string> | undefined;
  query?: Query | undefined;
  body?: unknown;
  idempotency_key?: string | undefined;
  signal?: AbortSignal | undefined;
  timeout_ms?: number | undefined;
}

/** Creates one method per route from the table of paths. Needs only fetch, so it works in browsers. */
export function routesClient(connection: Connection): RoutesClient {
  const client: Record<string, unknown> = {
    base_url: connection.base_url,
    call: (name: RouteName, args?: AnyArguments) => call(connection, name, args),
    pages: (name: RouteName, args?: AnyArguments) => pages(connection, name, args),
    request: (method: string, path: string, args?: RequestArguments) => request(connection, method, path, args),
  };
  for (const name of Object.keys(paths) as RouteName[])
    client[name] = async (args?: AnyArguments) => (await call(connection, name, args)).body;
  // The cast is needed because the table of paths has no types: TypeScript derives the methods from the routes.
  return client as unknown as RoutesClient;
}

async function call(connection: Connection, name: RouteName, args: AnyArguments = {}): Promise<Answer<unknown>> {
  const [method, path] = paths[name];
  return withDeadline(connection, { signal: args.signal, timeout_ms: totalTimeout(connection, args) }, async (signal) => {
    const response = await request(connection, method, fillPath(path, args.params ?? {}), {
      query: args.query,
      body: args.body ?? (method === "POST" || method === "PATCH" ? {} : undefined),
      headers: args.idempotency_key === undefined ? {} : { "idempotency-key": args.idempotency_key },
      signal,
      timeout_ms: args.timeout_ms,
    });
    return readJson(response);
  });
}

/** Returns the timeout of a call with all retries. Each attempt may take `timeout_ms` for the response headers and again for the body. */
function totalTimeout(connection: Connection, args: AnyArguments): number {
  return (args.timeout_ms ?? connection.timeout_ms) * 2 * (connection.retries + 1);
}

async function request(connection: Connection, method: string, path: string, args: RequestArguments = {}): Promise<Response> {
  const headers = new Headers({
    accept: "application/json",
    ...credentialHeaders(connection, path.split("?")[0]!),
    ...(method === "GET" || method === "HEAD" ? {} : sessionHeaders(connection)),
    ...args.headers,
  });
  const raw = typeof args.body === "string" || args.body instanceof Uint8Array;
  const body = raw ? (args.body as string | Uint8Array<ArrayBuffer>) : args.body === undefined ? undefined : JSON.stringify(args.body);
  if (body !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
  const url = urlOf(connection, path, args.query);
  const repeatable = method === "GET" || method === "HEAD" || method === "PUT" || headers.has("idempotency-key");
  return withRetries(connection, { repeatable, signal: args.signal }, () =>
    withDeadline(connection, args, (signal) =>
      connection.fetch(url, { method, headers, redirect: "manual", signal, ...(body === undefined ? {} : { body }) }),
    ),
  );
}

async function* pages(connection: Connection, name: RouteName, args: AnyArguments = {}): AsyncGenerator<unknown, void, void> {
  const seen = new Set<string>();
  let query = args.query;
  for (;;) {
    const page = (await call(connection, name, { ...args, query })).body as { next_cursor?: string | null };
    yield page;
    const cursor = page.next_cursor ?? undefined;
    if (cursor === undefined) return;
    if (seen.has(cursor)) throw new Error(`${name} returned the same page cursor twice: the server is faulty`);
    seen.add(cursor);
    query = { ...args.query, cursor };
  }
}
