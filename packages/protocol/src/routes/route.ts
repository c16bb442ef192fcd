import { type Static, type TObject, type TProperties, type TSchema, Type } from "typebox";
import { type Access, access } from "../access.ts";
import { type HttpMethod, paths, type RouteName } from "../paths.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

export type { Access };

/** The OpenAPI document that lists the route: the API of clients, or the API of agents. */
export type Document = "api" | "agent";

/** The parts of a route that its file defines. */
interface RouteParts {
  summary: string;
  /** Group of the route in the OpenAPI document. Default: the `tag` of `defineRoutes`. */
  tag?: string;
  /** Restricts callers with a role to tokens or to session cookies. Default: both are accepted. */
  by?: "token" | "session";
  document?: Document;
  /** Parameters of the path. Default: `id`, if the path contains `{id}`. */
  params?: TObject;
  query?: TObject;
  body?: TObject;
  /** Response schema by status; `null` for a response that is not JSON (`produces` is its content type). */
  responses: Record<number, TSchema | null>;
  produces?: string;
  /** Schema of the 200 response to a body with `dry_run: true`: such a request changes and stores nothing. */
  dry_run?: TSchema;
  /** Content type of a request body that is not JSON. The handler then reads the body as a stream. */
  consumes?: string;
  /**
   * Whether the route requires or accepts an Idempotency-Key. The two routes that start work on robots require one. By default, every other
   * POST of a person accepts one.
   */
  idempotency?: "required" | "accepted";
  /** Aliases of body fields, alias → field. */
  aliases?: Record<string, string>;
  /**
   * Returns a normalized body, so that bodies with the same meaning are equal for an Idempotency-Key. Aliases are already replaced.
   * Default: the body itself.
   */
  sameBody?: (body: Record<string, unknown>) => Record<string, unknown>;
  /** Secret fields of the response's `data`. They are null in the stored response and in its replay. */
  secret_fields?: readonly string[];
  /** Set if a plain digest of the body could reveal values that can be guessed. Replays are then compared by a keyed digest. */
  secret_body?: true;
  /**
   * Which requests are audited. `on_change_of_state`, for uploads in many parts: requests that were refused, or whose handler reports a
   * visible change. `always`: all requests, including those that only read.
   */
  audit?: "on_change_of_state" | "always";
  /** Error statuses in addition to those of all similar routes. 404 means that an id in the path, query or body does not exist. */
  errors?: readonly number[];
}

export interface RouteSpec extends RouteParts {
  tag: string;
  access: Access;
}

/** The type of the path parameters, derived from the path of the route. */
type PathParts<N extends RouteName> = (typeof paths)[N][1] extends `${string}{id}${string}` ? { params: typeof IdParams } : unknown;

export type Route<N extends RouteName = RouteName, S extends RouteParts = RouteParts> = S &
  PathParts<N> & {
    name: N;
    method: HttpMethod;
    path: string;
    tag: string;
    /** The role that the route requires, from the table in access.ts. */
    access: (typeof access)[N]["access"];
  };

/** Defines routes by name; `tag` is the default group of the routes in the document. */
export function defineRoutes<const R extends { [N in RouteName]?: RouteParts }>(
  tag: string,
  specs: R,
): { [N in keyof R & RouteName]: R[N] extends RouteParts ? Route<N, R[N]> : never } {
  const names = Object.keys(specs) as RouteName[];
  const define = (name: RouteName): Route => {
    const [method, path] = paths[name];
    const spec: RouteParts = specs[name]!;
    const idempotency = method === "POST" && spec.document !== "agent" ? { idempotency: "accepted" as const } : {};
    const params = path.includes("{id}") ? { params: IdParams } : {};
    return { tag, ...idempotency, ...params, ...spec, name, method, path, access: access[name].access };
  };
  return Object.fromEntries(names.map((name) => [name, define(name)])) as ReturnType<typeof defineRoutes<R>>;
}

type Input<S, K extends "params" | "query" | "body"> = S extends { [P in K]: infer T extends TSchema } ? Static<T> : Record<never, never>;
export type ParamsOf<S> = Input<S, "params">;
export type QueryOf<S> = Input<S, "query">;
export type BodyOf<S> = Input<S, "body">;
/** The response type of a dry run; `never` for routes that support none. */
export type DryRunOf<S> = S extends { dry_run: infer T extends TSchema } ? Static<T> : never;
type Answers<S> = S extends { responses: infer R } ? R[keyof R] : never;
export type AnswerOf<S> = Answers<S> extends infer T ? (T extends TSchema ? Static<T> : never) : never;

/** Names that schemas have in the OpenAPI document. The key is the schema object itself. */
export const schemaNames = new Map<TSchema, string>();

export function named<T extends TSchema>(name: string, schema: T): T {
  schemaNames.set(schema, name);
  return schema;
}

/** An object schema with a name in the OpenAPI document. */
export const Entity = <P extends TProperties>(name: string, properties: P) => named(name, Shape(properties));

/** An id. It is opaque: no pattern is checked, because an id in another format simply does not exist. */
export const Id = Type.String();
export const Time = Type.String({ format: "date-time", maxLength: 64, description: "RFC 3339 with a zone" });
/**
 * Pattern of names: 1–200 characters of any language, without control characters and line separators, and with no space at the start or
 * end.
 */
const VISIBLE = "[^\\p{Cc}\\p{Zl}\\p{Zp}\\s]";
const INNER = "[^\\p{Cc}\\p{Zl}\\p{Zp}]";
export const Name = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: `^${VISIBLE}(${INNER}*${VISIBLE})?$`,
  description: "1 to 200 characters, no control characters, no space at either end",
});
export const Tag = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: `^(?!rel_[0-9a-z]{26}$)${VISIBLE}(${INNER}*${VISIBLE})?$`,
  description: "1 to 200 characters, no control characters, no space at either end, not of the form of a release id",
});
export const Email = Type.String({
  minLength: 3,
  maxLength: 254,
  pattern: '^[^\\s@\\p{Cc}\\p{Cf}<>"(),:;]+@[^\\s@\\p{Cc}\\p{Cf}<>"(),:;]+$',
  description: "an e-mail address; upper and lower case count as the same",
});
export const AppName = Type.String({ pattern: "^[a-z0-9][a-z0-9._-]{0,62}$" });
export const Sha256 = Type.String({ pattern: "^[0-9a-f]{64}$", description: "SHA-256 as 64 hexadecimal digits" });
export const Labels = Type.Record(
  Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$" }),
  Type.String({ maxLength: 200, pattern: `^${INNER}*$` }),
  { maxProperties: 64, additionalProperties: false, description: "Labels of a robot" },
);
export const Count = Type.Integer({ minimum: 0 });
/** Any JSON value. */
export const Json = Type.Unknown({ description: "Any JSON value" });

export const stamps = { created_at: Time, updated_at: Time };

export const Actor = Entity("Actor", {
  type: OneOf(["user", "org_token", "robot", "system", "admin"]),
  id: Nullable(Type.String()),
  name: Nullable(Type.String()),
});
export type Actor = Static<typeof Actor>;

export const IdParams = Shape({ id: Id });

/** Query parameters of every list. Without `limit` and `cursor`, the response contains the whole list, up to 10,000 rows. */
export const page = {
  limit: Maybe(Type.Integer({ minimum: 1, maximum: 1000, description: "Rows per page" })),
  cursor: Maybe(Type.String({ minLength: 1, maxLength: 2_000, description: "next_cursor of the previous page" })),
};

export const ListOf = <T extends TSchema>(item: T) => Shape({ items: Type.Array(item), next_cursor: Nullable(Type.String()) });
export const DataOf = <T extends TSchema>(data: T) => Shape({ data });

export const Problem = Entity("Error", { error: Shape({ code: Type.String(), message: Type.String() }) });

export type Of<T extends TSchema> = Static<T>;
export type { TObject, TSchema };

type Fields = Record<string, unknown>;

/**
 * Returns a function that removes from a body all optional fields with default values. Bodies that are equal after that count as the same
 * request for an Idempotency-Key.
 */
export const withoutDefaults =
  (defaults: Readonly<Fields>) =>
  (body: Fields): Fields =>
    Object.fromEntries(Object.entries(body).filter(([name, value]) => !(name in defaults) || !isEqual(value, defaults[name])));

/** Compares two values as JSON. This is correct for strings, numbers, booleans, and empty arrays and objects. */
const isEqual = (value: unknown, other: unknown): boolean => JSON.stringify(value) === JSON.stringify(other);

/** Converts `target_kind` and `target_id` to `robot_id` or `fleet_id`, and removes a `target_kind` that `target_selector` implies. */
export function withoutTargetKind(body: Fields): Fields {
  const { target_kind, target_id, ...rest } = body;
  if (target_kind === "selection" && target_id === undefined && rest.target_selector !== undefined) return rest;
  if (target_kind !== "robot" && target_kind !== "fleet") return body;
  const name = `${target_kind}_id`;
  if (target_id !== undefined) return rest.robot_id === undefined && rest.fleet_id === undefined ? { ...rest, [name]: target_id } : body;
  return rest[name] === undefined ? body : rest;
}
