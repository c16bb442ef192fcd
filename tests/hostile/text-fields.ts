import type { TSchema } from "typebox";

type Body = Record<string, unknown>;

/** A field of a body that accepts text. */
export interface TextField {
  /** Property names, outermost first. */
  path: readonly string[];
  /** Returns the body with `text` in this field; missing parents are created. */
  set(body: Body, text: string): Body;
  /** Returns the field's value in a response, if present. */
  get(data: unknown): unknown;
}

type Node = TSchema & { properties?: Record<string, TSchema>; patternProperties?: Record<string, TSchema>; type?: string };

/** Whether a field is only compared: ids, enums and formats are not free text. */
const isCompared = (name: string, node: Node): boolean => /(^|_)id$|^release$/.test(name) || "enum" in node || "format" in node;

/** Returns every field of a body that accepts free text. */
export function textFields(schema: TSchema, path: readonly string[] = []): TextField[] {
  return Object.entries((schema as Node).properties ?? {}).flatMap(([name, property]) => {
    const node = property as Node;
    const here = [...path, name];
    if (isCompared(name, node)) return [];
    if (node.type === "string") return [field(here)];
    if (node.properties !== undefined) return textFields(node, here);
    // Labels and manifests: arbitrary names with text.
    if (node.patternProperties !== undefined) return [field([...here, "zone"])];
    // Any JSON: the text itself, and text in an object.
    if (!("type" in node) && !("anyOf" in node)) return [field(here), field([...here, "within"])];
    return [];
  });
}

const field = (path: readonly string[]): TextField => ({
  path,
  set: (body, text) => setAt(body, path, text),
  get: (data) => path.reduce<unknown>((part, name) => (part as Body | null | undefined)?.[name], data),
});

function setAt(body: Body, [name = "", ...rest]: readonly string[], text: string): Body {
  if (rest.length === 0) return { ...body, [name]: text };
  const inner = body[name];
  return { ...body, [name]: setAt(typeof inner === "object" && inner !== null ? (inner as Body) : {}, rest, text) };
}
