import { h, inline } from "./dom.js";

/** Maximum depth that is shown: a schema may contain itself. */
const DEPTH_MAX = 6;

const nameOf = (schema) => schema.$ref?.split("/").at(-1);

/** Returns the schema of a reference within the document `root`. */
export function resolve(root, schema) {
  const name = nameOf(schema);
  return name === undefined ? schema : (root.components.schemas[name] ?? {});
}

/** What a value is, in a few words: `string or null`, `array of Robot`. */
export function typeOf(schema) {
  if (schema.$ref !== undefined) return h("a", { href: `#schema/${nameOf(schema)}` }, nameOf(schema));
  if (schema.anyOf !== undefined)
    return joined(
      schema.anyOf.map((one) => typeOf(one)),
      " or ",
    );
  if (schema.enum !== undefined)
    return joined(
      schema.enum.map((value) => h("code", {}, String(value))),
      " | ",
    );
  if (schema.const !== undefined) return h("code", {}, JSON.stringify(schema.const));
  if (schema.type === "array") return ["array of ", typeOf(schema.items ?? {})];
  if (schema.patternProperties !== undefined) return ["object of ", typeOf(Object.values(schema.patternProperties)[0])];
  if (schema.format !== undefined) return `${schema.type} (${schema.format})`;
  return schema.type ?? "any";
}

const joined = (parts, separator) => parts.flatMap((part, i) => (i === 0 ? [part] : [separator, part])).flat();

/** Bounds that a value must keep, for people. */
export function limitsOf(schema) {
  const limits = [];
  const between = (low, high, unit) => {
    if (low !== undefined && high !== undefined) limits.push(`${low} to ${high}${unit}`);
    else if (low !== undefined) limits.push(`at least ${low}${unit}`);
    else if (high !== undefined) limits.push(`at most ${high}${unit}`);
  };
  between(schema.minimum, schema.maximum, "");
  between(schema.minLength, schema.maxLength, " characters");
  between(schema.minItems, schema.maxItems, " items");
  if (schema.default !== undefined) limits.push(`default ${JSON.stringify(schema.default)}`);
  return limits.join(", ");
}

/** The fields of an object schema as a table; nested objects open below their field. */
export function fieldTable(root, schema, depth = 0) {
  const object = objectOf(root, schema);
  const fields = Object.entries(object?.properties ?? {});
  if (fields.length === 0) return h("p", { class: "type" }, typeOf(schema));
  const required = new Set(object.required ?? []);
  return h(
    "dl",
    { class: "fields" },
    fields.map(([name, field]) => fieldRow(root, name, field, required.has(name), depth)),
  );
}

function fieldRow(root, name, field, required, depth) {
  const inner = field.$ref === undefined && field.anyOf === undefined ? objectOf(root, field) : undefined;
  const limits = limitsOf(field);
  return [
    h("dt", {}, h("code", {}, name), required ? null : h("span", { class: "optional" }, "optional")),
    h(
      "dd",
      {},
      h("span", { class: "type" }, typeOf(field)),
      limits === "" ? null : h("span", { class: "muted" }, ` ${limits}`),
      field.description === undefined ? null : h("div", { class: "muted" }, inline(field.description)),
      inner?.properties !== undefined && depth < DEPTH_MAX
        ? h("details", {}, h("summary", {}, "fields"), fieldTable(root, inner, depth + 1))
        : null,
    ),
  ];
}

/** The object that a schema is, or holds: behind a reference, in an array, beside null. */
function objectOf(root, schema) {
  const own = resolve(root, schema);
  if (own.type === "array") return objectOf(root, own.items ?? {});
  if (own.anyOf !== undefined) return own.anyOf.map((one) => objectOf(root, one)).find((one) => one?.properties !== undefined);
  return own.type === "object" ? own : undefined;
}

/** A value to start from: required fields of a body, with their defaults or something of the right type. */
export function example(root, schema, depth = 0) {
  const own = resolve(root, schema);
  if (own.default !== undefined) return own.default;
  if (own.const !== undefined) return own.const;
  if (own.enum !== undefined) return own.enum[0];
  if (own.anyOf !== undefined) return example(root, own.anyOf[0], depth);
  if (depth > DEPTH_MAX) return null;
  switch (own.type) {
    case "object":
      return Object.fromEntries((own.required ?? []).map((name) => [name, example(root, own.properties[name], depth + 1)]));
    case "array":
      return [];
    case "integer":
    case "number":
      return own.minimum ?? 0;
    case "boolean":
      return false;
    case "string":
      return "";
    default:
      return null;
  }
}
