import type { Static, TObject, TSchema } from "typebox";
import type { Access, access } from "../access.ts";
import { type HttpMethod, paths, type RouteName } from "../paths.ts";

export type { Access };

/** Which of the two documents lists the route. */
export type Document = "api" | "agent";

export interface RouteSpec {
  summary: string;
  tag: string;
  /** The role of its row in the table of access.ts. */
  access: Access;
  /** For callers with a role: only by a token, or only by the cookie of a session. Without it, either. */
  by?: "token" | "session";
  document?: Document;
  params?: TObject;
  query?: TObject;
  body?: TObject;
  /** Schema of the answer by status; `null` for an answer that is no JSON (its content type stands in `produces`). */
  responses: Record<number, TSchema | null>;
  produces?: string;
  /** Schema of the answer, 200, to a body that says `dry_run: true`: such a request changes nothing, and nothing of it is kept. */
  dry_run?: TSchema;
  /** Content type of a body that is no JSON: the handler reads the stream. */
  consumes?: string;
  /** `required` on the two routes that start something on robots; every other POST accepts a key. */
  idempotency?: "required" | "accepted";
  /** Other names that a body field is accepted under, alias → field. */
  aliases?: Record<string, string>;
  /** One spelling of bodies that mean the same, after aliases: what an Idempotency-Key compares. Without it the body as it is. */
  sameBody?: (body: Record<string, unknown>) => Record<string, unknown>;
  /** Fields of the answer's `data` that are secret: null in the stored answer and in a replay. */
  secret_fields?: readonly string[];
  /** The body may hold what is easily guessed from a digest of it: one that needs a key is kept for replays. */
  secret_body?: true;
  /**
   * `on_change_of_state`: the audit tells of a request only when it changed what others see, which the handler says, or was refused: for what comes in
   * many parts. `always`: it tells of one that reads, too.
   */
  audit?: "on_change_of_state" | "always";
  /** The route answers 404 for an id in its path, query or body that does not exist. */
  errors?: readonly number[];
}

export type Route<N extends RouteName = RouteName, S extends RouteSpec = RouteSpec> = S & { name: N; method: HttpMethod; path: string };

/** `access` must be what the route's row in the table says: another one does not compile. */
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
/** What a dry run is answered; never for routes that have none. */
export type DryRunOf<S> = S extends { dry_run: infer T extends TSchema } ? Static<T> : never;
type Answers<S> = S extends { responses: infer R } ? R[keyof R] : never;
export type AnswerOf<S> = Answers<S> extends infer T ? (T extends TSchema ? Static<T> : never) : never;
