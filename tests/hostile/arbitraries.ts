import fc from "fast-check";
import type { TSchema } from "typebox";

/** Texts that often break terminals, logs, pages, paths, SQL or JSON. */
export const HOSTILE_TEXTS = [
  "\u001b]0;owned\u0007\u001b[2J\u001b[31mred",
  'first line\r\nsecond line: {"level":60}',
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(1)>',
  "\u202egnp.exe\u202c\u2066\u2069",
  "\u2028\u2029\u0085",
  "\u009b31m\u009d0;owned\u009c",
  "bell \u0007, back \b\b\b, tab \t, form \f, delete \u007f",
  "zero\u200bwidth\u200c\u2060\ufeff\u00ad",
  "marks upon marks: z\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u030d\u030e\u030f",
  "\u{e0041}\u{e0042} tags \u{1f3f4}\u{e0067}\u{e007f}",
  "../../../../etc/passwd",
  "'; drop table robot; --",
  "$(reboot) `reboot` ${jndi:ldap://x}",
  "%00 %0d%0a %n%s",
  "NaN",
  "9".repeat(400),
  "ﷺ".repeat(60),
  "é vs e\u0301, ﬁ vs fi, ß vs SS",
  "=cmd|'/c calc'!A0",
  "__proto__",
  "constructor",
  "𝒳\u{1f9d1}\u200d\u{1f680}".repeat(20),
  " leading and trailing ",
  "",
  "null",
  "0",
] as const;

/** Text that JSON or PostgreSQL cannot store. */
export const IMPOSSIBLE_TEXTS = ["a\0b", "\ud800 alone", "\udc00"] as const;

const anyText = fc.oneof(
  fc.constantFrom(...HOSTILE_TEXTS, ...IMPOSSIBLE_TEXTS),
  fc.string({ unit: "binary", maxLength: 300 }),
  fc.string({ maxLength: 40 }),
);

/** Any JSON value of moderate size. */
export const anyJson: fc.Arbitrary<unknown> = fc.oneof(
  anyText,
  fc.constantFrom(null, true, false, 0, -1, 1.5, 1e308, -1e308, 2 ** 53, 2 ** 31, -(2 ** 63), Number.MIN_VALUE),
  fc.integer(),
  fc.jsonValue({ maxDepth: 4 }),
  fc.array(anyText, { maxLength: 20 }),
  fc.dictionary(anyText, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 10 }),
);

/** Returns valid values of a field that its schema cannot describe, such as ids of existing objects. */
export type Known = (field: string) => readonly string[];

type Node = TSchema & Record<string, unknown>;
const nodes = (value: unknown): Node[] => (Array.isArray(value) ? (value as Node[]) : []);

/** Generates values that a schema allows. */
export function allowed(schema: TSchema, known: Known, field = ""): fc.Arbitrary<unknown> {
  const node = schema as Node;
  if ("const" in node) return fc.constant(node.const);
  if (Array.isArray(node.enum)) return fc.constantFrom(...(node.enum as unknown[]));
  const unions = nodes(node.anyOf);
  if (unions.length > 0) return fc.oneof(...unions.map((one) => allowed(one, known, field)));
  switch (node.type) {
    case "object":
      return allowedObject(node, known);
    case "array":
      return fc.array(allowed(node.items ?? {}, known, field), {
        minLength: Number(node.minItems ?? 0),
        maxLength: Math.min(Number(node.maxItems ?? 4), 4),
      });
    case "string":
      return allowedText(node, known(field));
    case "integer":
      return fc.integer({ min: Number(node.minimum ?? -1_000), max: Math.min(Number(node.maximum ?? 1_000_000), 2 ** 31 - 1) });
    case "number":
      return fc.double({ min: Number(node.minimum ?? -1e9), max: Number(node.maximum ?? 1e9), noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return fc.jsonValue({ maxDepth: 3 });
  }
}

function allowedObject(node: Node, known: Known): fc.Arbitrary<unknown> {
  const properties = (node.properties ?? {}) as Record<string, TSchema>;
  const required = (node.required ?? []) as string[];
  const [pattern] = Object.entries((node.patternProperties ?? {}) as Record<string, TSchema>);
  if (pattern !== undefined) {
    const [key, value] = pattern;
    return fc.dictionary(matching(new RegExp(key, "u"), ["zone", "a-b.c/d"], 60), allowed(value, known), { maxKeys: 4 });
  }
  return fc.record(Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, allowed(one, known, name)])), {
    requiredKeys: required,
  });
}

const TIMES = ["2030-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59+14:00", "2024-02-29T12:00:00-11:30"];

function allowedText(node: Node, ids: readonly string[]): fc.Arbitrary<string> {
  const [min, max] = [Number(node.minLength ?? 0), Math.min(Number(node.maxLength ?? 300), 5_000)];
  if (node.format === "date-time") return fc.constantFrom(...TIMES);
  const pattern = typeof node.pattern === "string" ? new RegExp(node.pattern, "u") : /^/u;
  const samples = [...HOSTILE_TEXTS, "a".repeat(64), "sample", "sample-1.0", "x"];
  const text = matching(pattern, samples, max).map((value) => (value.length >= min && value.length <= max ? value : "sample"));
  return ids.length === 0 ? text : fc.oneof({ arbitrary: fc.constantFrom(...ids), weight: 4 }, { arbitrary: text, weight: 1 });
}

/** Generates text that matches a pattern: matching samples and generated text. */
function matching(pattern: RegExp, samples: readonly string[], max: number): fc.Arbitrary<string> {
  const fitting = samples.filter((sample) => pattern.test(sample) && sample.length <= max);
  const made = madeFor(pattern, max);
  return fitting.length === 0 ? made : fc.oneof(fc.constantFrom(...fitting), made);
}

/**
 * Generates text for a pattern with fast-check, which does not support Unicode classes. Those of our patterns that contain such classes
 * match nearly any text.
 */
function madeFor(pattern: RegExp, max: number): fc.Arbitrary<string> {
  if (pattern.source === "^") return fc.string({ maxLength: Math.min(max, 60) });
  if (!/\\p\{|\(\?/.test(pattern.source)) return fc.stringMatching(new RegExp(pattern.source)).filter((text) => text.length <= max);
  return fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).map((text) => (pattern.test(text) ? text : "sample"));
}

/**
 * Generates invalid values for an object schema: an object with a missing, unknown or wrongly typed field, or a value that is not an
 * object.
 */
export function bent(schema: TSchema, known: Known): fc.Arbitrary<unknown> {
  return fc.oneof(
    anyJson,
    fc.tuple(allowed(schema, known), anyText, anyJson).map(([value, name, other]) => ({ ...(value as object), [name]: other })),
    fc
      .tuple(allowed(schema, known), fc.nat(), anyJson)
      .map(([value, at, other]) => replaceOne(value as Record<string, unknown>, at, other)),
    fc
      .tuple(allowed(schema, known), fc.nat())
      .map(([value, at]) => Object.fromEntries(Object.entries(value as object).filter((_, index, all) => index !== at % all.length))),
  );
}

function replaceOne(value: Record<string, unknown>, at: number, other: unknown): Record<string, unknown> {
  const names = Object.keys(value);
  const name = names[at % Math.max(1, names.length)];
  return name === undefined ? value : { ...value, [name]: other };
}

/** Generates a value of a query parameter or a path part. */
export const anyParameter: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...HOSTILE_TEXTS.filter((text) => text !== "")),
  fc.string({ unit: "binary", minLength: 1, maxLength: 100 }).filter((text) => text.isWellFormed()),
);
