import { Document, Scalar, visit } from "yaml";
import { escapeUnsafe, hex, UNSAFE } from "./text.ts";

/** A value as a YAML document in which every character that acts on a terminal is an escape within quotes. */
export function yamlText(value: unknown): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value === "string" && node.value.search(UNSAFE) !== -1) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  // What is left of them stands in double quotes, and the ends of lines are the document's own.
  return escapeUnsafe(
    document.toString({ lineWidth: 0, doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER }),
    (character) => `\\U${hex(character.codePointAt(0)!, 8)}`,
  );
}
