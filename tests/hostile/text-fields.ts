import type { TSchema } from "typebox";

type Body = Record<string, unknown>;

/** A place in a body that takes text. */
export interface TextField {
  /** Names from the outside in. */
  path: readonly string[];
  /** The body with `text` in this place; the names in the way are made. */
  set(body: Body, text: string): Body;
  /** What an answer holds in this place, if it shows it. */
  get(data: unknown): unknown;
}

type Node = TSchema & { properties?: Record<string, TSchema>; patternProperties?: Record<string, TSchema>; type?: string };

/** Ids are compared, never shown; what is compared with a list of words is no text either. */
const isCompared = (name: string, node: Node): boolean => /(^|_)id$|^release$/.test(name) || "enum" in node || "format" in node;

/** Every place of a body where a person or a robot can put text of their own. */
export function textFields(schema: TSchema, path: readonly string[] = []): TextField[] {
  return Object.entries((schema as Node).properties ?? {}).flatMap(([name, property]) => {
    const node = property as Node;
    const here = [...path, name];
    if (isCompared(name, node)) return [];
    if (node.type === "string") return [field(here)];
    if (node.properties !== undefined) return textFields(node, here);
    // Labels and manifests: arbitrary names with text.
    if (node.patternProperties !== undefined) return [field([...here, "zone"])];
    // Any JSON: the text itself, and within.
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
