import { type Static, type TObject, type TProperties, type TSchema, Type } from "typebox";

/** Names of schemas in the OpenAPI document, by identity. */
export const schemaNames = new Map<TSchema, string>();

export function named<T extends TSchema>(name: string, schema: T): T {
  schemaNames.set(schema, name);
  return schema;
}

/** An object schema that rejects unknown fields. */
export const Shape = <P extends TProperties>(properties: P, options: object = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
export const Maybe = <T extends TSchema>(schema: T) => Type.Optional(schema);
export const OneOf = <const V extends string[]>(values: readonly [...V], description?: string) =>
  Type.Enum<V>(values, description === undefined ? {} : { description });

/** Ids are opaque: an id in another format simply does not exist, so no pattern is checked. */
export const Id = Type.String();
export const Time = Type.String({ format: "date-time", maxLength: 64, description: "RFC 3339 with a zone" });
/** 1–200 characters of any language, without control characters or line separators, and without a space at either end. */
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

export const Actor = named(
  "Actor",
  Shape({ type: OneOf(["user", "org_token", "robot", "system", "admin"]), id: Nullable(Type.String()), name: Nullable(Type.String()) }),
);
export type Actor = Static<typeof Actor>;

export const IdParams = Shape({ id: Id });

/** Query of every list: without `limit` and `cursor` the response is complete up to 10,000 rows. */
export const page = {
  limit: Maybe(Type.Integer({ minimum: 1, maximum: 1000, description: "Rows per page" })),
  cursor: Maybe(Type.String({ minLength: 1, maxLength: 2_000, description: "next_cursor of the previous page" })),
};

export const ListOf = <T extends TSchema>(item: T) => Shape({ items: Type.Array(item), next_cursor: Nullable(Type.String()) });
export const DataOf = <T extends TSchema>(data: T) => Shape({ data });

export const Problem = named("Error", Shape({ error: Shape({ code: Type.String(), message: Type.String() }) }));

export type Of<T extends TSchema> = Static<T>;
export type { TObject, TSchema };
