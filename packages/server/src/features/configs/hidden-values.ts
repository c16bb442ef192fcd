import type { FuncKeywordDefinition } from "ajv";

/**
 * Replaces a secret's value while an object is validated, so that the result does not depend on the secret. No JSON value equals it.
 */
export const HIDDEN = Symbol("hidden");

const KEYWORD = "x-hidden";

/** Used in the schemas that `overlookHidden` returns. Schemas of tenants are compiled without it, so they cannot use it. */
export const hiddenKeyword: FuncKeywordDefinition = {
  keyword: KEYWORD,
  schemaType: "boolean",
  errors: false,
  validate: (_: boolean, value: unknown) => value === HIDDEN,
};

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Keywords whose subschemas apply to the same object as their schema; a definition may, too. */
const SAME = ["not", "if", "then", "else"];
const SAME_LISTS = ["allOf", "anyOf", "oneOf"];
const SAME_MAPS = ["dependentSchemas", "$defs", "definitions"];
/** Keywords whose subschemas apply to the object's values. */
const VALUE = ["additionalProperties", "unevaluatedProperties"];
const VALUE_MAPS = ["properties", "patternProperties"];

/** Returns the schema of an object without any constraint on values that are `HIDDEN`; the presence of keys is still validated. */
export function overlookHidden(schema: unknown): unknown {
  if (!isFields(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, part]) => {
      if (SAME.includes(keyword)) return [keyword, overlookHidden(part)];
      if (SAME_LISTS.includes(keyword) && Array.isArray(part)) return [keyword, part.map(overlookHidden)];
      if (SAME_MAPS.includes(keyword)) return [keyword, mapFields(part, overlookHidden)];
      if (VALUE.includes(keyword)) return [keyword, unlessHidden(part)];
      if (VALUE_MAPS.includes(keyword)) return [keyword, mapFields(part, unlessHidden)];
      return [keyword, part];
    }),
  );
}

/** `false` stays: it forbids the key, which is not secret. */
const unlessHidden = (schema: unknown): unknown => (isFields(schema) ? { if: { [KEYWORD]: true }, else: schema } : schema);

const mapFields = (value: unknown, change: (part: unknown) => unknown): unknown =>
  isFields(value) ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, change(part)])) : value;
