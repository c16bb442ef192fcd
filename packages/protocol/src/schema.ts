import { type TProperties, type TSchema, Type } from "typebox";

/** An object schema that rejects unknown fields. */
export const Shape = <P extends TProperties>(properties: P, options: object = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
export const Maybe = <T extends TSchema>(schema: T) => Type.Optional(schema);
export const OneOf = <const V extends string[]>(values: readonly [...V], description?: string) =>
  Type.Enum<V>(values, description === undefined ? {} : { description });
