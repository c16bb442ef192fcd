import type { Static, TObject, TSchema } from "typebox";
import type { Access, access } from "../access.ts";
import { type HttpMethod, paths, type RouteName } from "../paths.ts";

export type { Access };

/** The document that lists the route. */
export type Document = "api" | "agent";

export interface RouteSpec {
  summary: string;
  tag: string;
  /** The role of its row in the table of access.ts. */
  access: Access;
  /** For callers with a role: accept only tokens, or only session cookies. Default: either. */
  by?: "token" | "session";
  document?: Document;
  params?: TObject;
  query?: TObject;
  body?: TObject;
  /** Response schema by status; `null` for a response that is not JSON (`produces` is its content type). */
  responses: Record<number, TSchema | null>;
  produces?: string;
  /** Schema of the 200 response to a body with `dry_run: true`: such a request changes and stores nothing. */
  dry_run?: TSchema;
  /** Content type of a body that is not JSON: the handler reads the stream. */
  consumes?: string;
  /** `required` on the two routes that start work on robots; every other POST accepts a key. */
  idempotency?: "required" | "accepted";
  /** Aliases of body fields, alias → field. */
  aliases?: Record<string, string>;
  /** Normalizes bodies with the same meaning, after aliases, before an Idempotency-Key compares them. Default: unchanged. */
  sameBody?: (body: Record<string, unknown>) => Record<string, unknown>;
  /** Secret fields of the response's `data`: null in the stored response and in a replay. */
  secret_fields?: readonly string[];
  /** The body may contain values that can be guessed from their digest: replays store a keyed digest. */
  secret_body?: true;
  /**
   * `on_change_of_state`: audits a request only if it was refused or its handler reports a visible change; for uploads in many parts.
   * `always`: also audits a request that only reads.
   */
  audit?: "on_change_of_state" | "always";
  /** The route returns 404 for an id in its path, query or body that does not exist. */
  errors?: readonly number[];
}

export type Route<N extends RouteName = RouteName, S extends RouteSpec = RouteSpec> = S & { name: N; method: HttpMethod; path: string };

/** `access` must match the route's row in the table; otherwise this does not compile. */
export function defineRoute<N extends RouteName, const S extends RouteSpec & { access: (typeof access)[N]["access"] }>(
  name: N,
  spec: S,
): Route<N, S> {
  const [method, path] = paths[name];
  return { ...spec, name, method, path };
}

type Input<S, K extends "params" | "query" | "body"> = S extends { [P in K]: infer T extends TSchema } ? Static<T> : Record<never, never>;
export type ParamsOf<S> = Input<S, "params">;
export type QueryOf<S> = Input<S, "query">;
export type BodyOf<S> = Input<S, "body">;
/** Response type of a dry run; never for routes without one. */
export type DryRunOf<S> = S extends { dry_run: infer T extends TSchema } ? Static<T> : never;
type Answers<S> = S extends { responses: infer R } ? R[keyof R] : never;
export type AnswerOf<S> = Answers<S> extends infer T ? (T extends TSchema ? Static<T> : never) : never;
