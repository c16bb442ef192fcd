import type { FuncKeywordDefinition } from "ajv";

/**
 * Stands in for a secret's value while an object is checked: what comes out is the same whatever the secret is. No JSON
 * value equals it.
 */
export const HIDDEN = Symbol("hidden");

const KEYWORD = "x-hidden";

/** Of the schemas that `overlookHidden` makes; tenants' own are compiled without it, so that it is unknown in them. */
export const hiddenKeyword: FuncKeywordDefinition = {
  keyword: KEYWORD,
  schemaType: "boolean",
  errors: false,
  validate: (_: boolean, value: unknown) => value === HIDDEN,
};

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Keywords whose schemas are of the same object as the one that they stand in; a definition may be of it. */
const SAME = ["not", "if", "then", "else"];
const SAME_LISTS = ["allOf", "anyOf", "oneOf"];
const SAME_MAPS = ["dependentSchemas", "$defs", "definitions"];
/** Those whose schemas are of the object's values. */
const VALUE = ["additionalProperties", "unevaluatedProperties"];
const VALUE_MAPS = ["properties", "patternProperties"];

/** The schema of an object, saying nothing about values that are `HIDDEN`: only which keys there are is looked at. */
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

/** `false` stays: it is of the key, which is no secret. */
const unlessHidden = (schema: unknown): unknown => (isFields(schema) ? { if: { [KEYWORD]: true }, else: schema } : schema);

const mapFields = (value: unknown, change: (part: unknown) => unknown): unknown =>
  isFields(value) ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, change(part)])) : value;
