import { hash } from "node:crypto";
import type { JsonValue } from "@roamfleet/protocol";
import type { ErrorObject, FuncKeywordDefinition, ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { LRUCache } from "lru-cache";
import { badRequest, printable } from "../../kernel/fault.ts";
import { checkSchema, compilePattern, FORMATS, isFields, type SchemaCost } from "./schema-limits.ts";

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const COMPILED_MAX = 200;
/**
 * Maximum cost of a validation: (parts of the value × parts of its schema) + (characters × pattern steps). In the worst case it takes about
 * a second.
 */
const COST_MAX = 20_000_000;
/** Top-level keywords of a schema that constrain each member of the object independently of the others. */
const MEMBER_KEYWORDS = ["$defs", "definitions", "type", "properties", "patternProperties", "additionalProperties", "propertyNames"];

/** Describes how a value violates a schema. */
interface Violation {
  /** The path of the violating part, such as `limits.speed`; empty for the object as a whole. */
  path: string;
  /** The problem with that part, such as `must be <= 5`. */
  problem: string;
}

export interface CompiledSchema {
  /** Validates one key's value independently of the others. If `secret`, the message contains no part of the value. */
  member(key: string, value: JsonValue, secret?: boolean): Violation | undefined;
  /**
   * Validates the whole object. Ignores the values of secrets, because operators who may not read secrets can set schemas and see the
   * result.
   */
  whole(values: ReadonlyMap<string, JsonValue>, secret_keys: ReadonlySet<string>): Violation | undefined;
}

type Values = ReadonlyMap<string, JsonValue | typeof HIDDEN>;

const engine = Object.assign(
  (pattern: string) => {
    const { expression } = compilePattern(pattern);
    return { test: (text: string): boolean => expression.test(text), toString: () => pattern };
  },
  { code: "linear" },
);
const options = {
  strict: true,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  allowUnionTypes: true,
  ownProperties: true,
  logger: false,
} as const;

let meta: Ajv2020 | undefined;
const compiled = new LRUCache<string, CompiledSchema>({ max: COMPILED_MAX });

/** Validates and compiles a schema. Throws 400 with the problem if the schema is invalid. */
export function compileSchema(schema: unknown): CompiledSchema {
  const text = JSON.stringify(schema) ?? "";
  const name = hash("sha256", text);
  let ready = compiled.get(name);
  if (ready === undefined) compiled.set(name, (ready = compile(schema)));
  return ready;
}

function compile(schema: unknown): CompiledSchema {
  const cost = checkSchema(schema);
  const { $schema, ...rest } = schema as Record<string, unknown>;
  if ($schema !== undefined && $schema !== DIALECT && $schema !== `${DIALECT}#`)
    throw badRequest(`field schema.$schema must be ${DIALECT}`);
  // Formats in the schema (patterns and references) are not validated here: `checkSchema` has checked them.
  meta ??= new Ajv2020({ strict: false, validateFormats: false, logger: false });
  if (meta.validateSchema(rest) !== true) throw badRequest(`field schema is not a JSON Schema: ${explain(meta.errors?.[0], "schema")}`);
  const member = Object.fromEntries(Object.entries(rest).filter(([keyword]) => MEMBER_KEYWORDS.includes(keyword)));
  const check_member = validatorOf(member);
  const check_whole = validatorOf(rest);
  let check_hidden: ValidateFunction | undefined;
  const check = (validate: ValidateFunction, values: Values, secret_keys: ReadonlySet<string>) => {
    if (costOf(values, cost) > COST_MAX) return { path: "", problem: "is too large to be checked against its schema" };
    return validate(Object.fromEntries(values)) ? undefined : violationOf(validate.errors?.[0], secret_keys);
  };
  return {
    member: (key, value, secret = false) => check(check_member, new Map([[key, value]]), new Set(secret ? [key] : [])),
    whole: (values, secret_keys) => {
      if (secret_keys.size === 0) return check(check_whole, values, secret_keys);
      const hidden = new Map(Array.from(values, ([key, value]) => [key, secret_keys.has(key) ? HIDDEN : value] as const));
      return check((check_hidden ??= validatorOf(overlookHidden(rest) as object, [hiddenKeyword])), hidden, secret_keys);
    },
  };
}

function validatorOf(schema: object, keywords: FuncKeywordDefinition[] = []): ValidateFunction {
  // A separate instance for each schema: an instance never frees the schemas that it has compiled.
  const ajv = new Ajv2020({ ...options, keywords, meta: false, validateSchema: false, code: { regExp: engine } });
  (addFormats as unknown as (ajv: Ajv2020, options: object) => void)(ajv, { mode: "fast", formats: [...FORMATS] });
  try {
    return ajv.compile(schema);
  } catch (error) {
    throw badRequest(`field schema cannot be used: ${error instanceof Error ? error.message.slice(0, 300) : "it does not compile"}`);
  }
}

/** Computes the cost of validating the values. Stops counting inside a value once the cost exceeds the limit. */
function costOf(values: Values, { nodes, pattern_steps }: SchemaCost): number {
  let cost = nodes;
  const count = (value: JsonValue): void => {
    cost += nodes + (typeof value === "string" ? value.length * pattern_steps : 0);
    if (cost > COST_MAX || typeof value !== "object" || value === null) return;
    for (const [name, part] of Object.entries(value)) {
      if (!Array.isArray(value)) cost += name.length * pattern_steps;
      count(part);
    }
  };
  for (const [key, value] of values) {
    cost += key.length * pattern_steps;
    if (value !== HIDDEN) count(value);
  }
  return cost;
}

const explain = (error: ErrorObject | undefined, root: string): string =>
  `${[root, pathOf(error?.instancePath ?? "")].filter((part) => part !== "").join(".")} ${error?.message ?? "is not valid"}`;

const pathOf = (pointer: string): string =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(".");

function violationOf(error: ErrorObject | undefined, secret_keys: ReadonlySet<string>): Violation {
  const path = pathOf(error?.instancePath ?? "");
  const [, first = ""] = (error?.instancePath ?? "").split("/");
  const key = first.replaceAll("~1", "/").replaceAll("~0", "~");
  // The message must not reveal paths or names inside a secret.
  if (secret_keys.has(key)) return { path: key, problem: "violates its schema" };
  const { additionalProperty, unevaluatedProperty, propertyName } = (error?.params ?? {}) as Record<string, unknown>;
  const extra = additionalProperty ?? unevaluatedProperty ?? propertyName;
  if (typeof extra === "string" && error?.keyword !== "required")
    return { path: [path, extra].filter((part) => part !== "").join("."), problem: "is not in the schema" };
  return { path, problem: error?.message ?? "is not valid" };
}

/** Formats a violation as one sentence. */
export const sentenceOf = (namespace: string, { path, problem }: Violation): string =>
  path === ""
    ? `the config of namespace ${printable(namespace)} ${problem}`
    : `value ${printable(path)} ${problem} (schema of namespace ${printable(namespace)})`;

/**
 * Takes the place of a secret's value during validation, so that the result does not depend on the secret. It differs from every JSON
 * value.
 */
const HIDDEN = Symbol("hidden");

const KEYWORD = "x-hidden";

/**
 * The definition of a keyword that only the schemas returned by `overlookHidden` use. Tenants cannot use the keyword: their own schemas are
 * compiled without it, and ajv rejects unknown keywords.
 */
const hiddenKeyword: FuncKeywordDefinition = {
  keyword: KEYWORD,
  schemaType: "boolean",
  errors: false,
  validate: (_: boolean, value: unknown) => value === HIDDEN,
};

/**
 * Keywords whose subschemas apply to the same object as the schema that contains them. Definitions are treated the same way, because a
 * reference may apply them to that object.
 */
const SAME = ["not", "if", "then", "else"];
const SAME_LISTS = ["allOf", "anyOf", "oneOf"];
const SAME_MAPS = ["dependentSchemas", "$defs", "definitions"];
/** Keywords whose subschemas apply to the object's values. */
const VALUE = ["additionalProperties", "unevaluatedProperties"];
const VALUE_MAPS = ["properties", "patternProperties"];

/** Returns the schema without its constraints on values that are `HIDDEN`. The presence of their keys is still validated. */
function overlookHidden(schema: unknown): unknown {
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

/** Exempts `HIDDEN` values from a subschema. Keeps `false`, which forbids the key: the presence of a key is not secret. */
const unlessHidden = (schema: unknown): unknown => (isFields(schema) ? { if: { [KEYWORD]: true }, else: schema } : schema);

const mapFields = (value: unknown, change: (part: unknown) => unknown): unknown =>
  isFields(value) ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, change(part)])) : value;
