import { RE2JS } from "re2js";
import { badRequest, printable } from "../../kernel/fault.ts";

/** Maximum size of a schema as JSON. */
const SCHEMA_BYTES_MAX = 64 * 1024;
/** Maximum number of subschemas plus members of `enum`, `const` and `required`, with all references expanded. */
const SCHEMA_NODES_MAX = 1_000;
const SCHEMA_DEPTH_MAX = 32;
/** Maximum compiled size of a pattern. The matching time is proportional to this size. */
const PATTERN_STEPS_MAX = 2_000;
/** Maximum `maxItems` of a list with `uniqueItems`, because ajv compares each item with all others. */
const UNIQUE_ITEMS_MAX = 1_000;

/** Formats whose validation time is proportional to the length of the text. */
export const FORMATS = ["date", "time", "date-time", "duration", "uri", "email", "hostname", "ipv4", "ipv6", "uuid"] as const;

const ONE = [
  "additionalProperties",
  "items",
  "contains",
  "not",
  "if",
  "then",
  "else",
  "propertyNames",
  "unevaluatedItems",
  "unevaluatedProperties",
];
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS = ["properties", "patternProperties", "dependentSchemas"];
const DEFINITIONS = ["$defs", "definitions"];
const REFUSED = ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "$async", "$data"];
const REFERENCE = /^#\/(\$defs|definitions)\/([^/]+)$/;

type Fields = Record<string, unknown>;
export const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** The cost of validating a value against a schema. */
export interface SchemaCost {
  /** Cost for each part of the value. */
  nodes: number;
  /** Cost for each character of the value. */
  pattern_steps: number;
}

/** Compiles a pattern with an engine whose time is linear in the text. Throws 400 for features that it does not support. */
export function compilePattern(pattern: string): { expression: RE2JS; steps: number } {
  try {
    const expression = RE2JS.compile(pattern);
    const steps = expression.programSize();
    if (steps <= PATTERN_STEPS_MAX) return { expression, steps };
  } catch {
    throw badRequest(`the schema's pattern ${printable(pattern)} cannot be used: it is invalid, or uses look-around or back references`);
  }
  throw badRequest(`the schema's pattern ${printable(pattern)} is too large`);
}

/**
 * Returns the cost of validating against a tenant's schema. Throws 400 if the schema could overload the server, or refers to anything but
 * its own definitions.
 */
export function checkSchema(schema: unknown): SchemaCost {
  if (!isFields(schema)) throw badRequest("field schema must be a JSON Schema: an object");
  if (Buffer.byteLength(JSON.stringify(schema)) > SCHEMA_BYTES_MAX)
    throw badRequest(`field schema has more than ${SCHEMA_BYTES_MAX} bytes`);
  if (schema.type !== undefined && schema.type !== "object")
    throw badRequest("field schema describes a namespace's object: its type must be object");
  const walk = new Walk(schema);
  // ajv also compiles definitions that nothing refers to, so they must be valid too.
  for (const name of DEFINITIONS) for (const part of Object.values(isFields(schema[name]) ? schema[name] : {})) walk.visit(part, 1, []);
  walk.reset();
  walk.visit(schema, 0, []);
  return walk.cost;
}

class Walk {
  readonly #root: Fields;
  cost: SchemaCost = { nodes: 0, pattern_steps: 0 };

  constructor(root: Fields) {
    this.#root = root;
  }

  reset(): void {
    this.cost = { nodes: 0, pattern_steps: 0 };
  }

  visit(schema: unknown, depth: number, inside: readonly string[]): void {
    this.#count(1);
    if (!isFields(schema)) return;
    if (depth > SCHEMA_DEPTH_MAX) throw badRequest(`field schema is nested deeper than ${SCHEMA_DEPTH_MAX} levels`);
    const refused = REFUSED.find((keyword) => Object.hasOwn(schema, keyword));
    if (refused !== undefined) throw badRequest(`field schema must not use ${refused}: it may only refer to its own $defs`);
    if (depth > 0 && DEFINITIONS.some((name) => Object.hasOwn(schema, name)))
      throw badRequest("field schema must have its $defs at the top level");
    this.#patterns(schema);
    for (const name of ["enum", "required", "const"]) this.#values(schema[name], depth);
    if (schema.uniqueItems === true && !(typeof schema.maxItems === "number" && schema.maxItems <= UNIQUE_ITEMS_MAX))
      throw badRequest(`field schema: uniqueItems needs a maxItems of at most ${UNIQUE_ITEMS_MAX}`);
    if (schema.$ref !== undefined) this.#follow(schema.$ref, depth, inside);
    for (const name of ONE) if (schema[name] !== undefined) this.visit(schema[name], depth + 1, inside);
    for (const name of LISTS) for (const part of Array.isArray(schema[name]) ? schema[name] : []) this.visit(part, depth + 1, inside);
    for (const name of MAPS)
      for (const part of Object.values(isFields(schema[name]) ? schema[name] : {})) this.visit(part, depth + 1, inside);
  }

  #count(nodes: number): void {
    this.cost.nodes += nodes;
    if (this.cost.nodes > SCHEMA_NODES_MAX)
      throw badRequest(`field schema has more than ${SCHEMA_NODES_MAX} parts when its references are expanded`);
  }

  /** Counts the parts of constants in the schema, because each comparison with a constant visits all of its parts. */
  #values(value: unknown, depth: number): void {
    if (value === undefined) return;
    this.#count(1);
    if (typeof value !== "object" || value === null) return;
    for (const part of Object.values(value)) this.#values(part, depth);
  }

  #patterns(schema: Fields): void {
    const patterns = Object.keys(isFields(schema.patternProperties) ? schema.patternProperties : {});
    if (typeof schema.pattern === "string") patterns.push(schema.pattern);
    for (const pattern of patterns) this.cost.pattern_steps += compilePattern(pattern).steps;
  }

  #follow(reference: unknown, depth: number, inside: readonly string[]): void {
    const [, definitions = "", name = ""] = REFERENCE.exec(String(reference)) ?? [];
    const named = this.#root[definitions];
    const key = decodePointer(name);
    if (!isFields(named) || !Object.hasOwn(named, key))
      throw badRequest(`field schema: the reference ${printable(String(reference))} refers to none of the schema's $defs`);
    if (inside.includes(`${definitions}/${key}`))
      throw badRequest(`field schema: the definition ${printable(key)} refers to itself, which is not supported`);
    this.visit(named[key], depth + 1, [...inside, `${definitions}/${key}`]);
  }
}

function decodePointer(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return part;
  }
}
