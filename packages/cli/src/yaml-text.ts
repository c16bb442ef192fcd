import { Document, isScalar, Scalar, visit } from "yaml";
import { escapeUnsafe, hex, UNSAFE } from "./text.ts";

/**
 * Formats a value as a YAML document in which control characters are escaped inside quotes. With `lists_in_line`, lists of scalars take one
 * line.
 */
export function yamlText(value: unknown, { lists_in_line = false }: { lists_in_line?: boolean } = {}): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Seq: (_key, node) => {
      if (lists_in_line && node.items.every((item) => isScalar(item))) node.flow = true;
    },
    Scalar: (_key, node) => {
      if (typeof node.value === "string" && node.value.search(UNSAFE) !== -1) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  // Remaining control characters are inside double quotes; newlines are part of the document.
  return escapeUnsafe(
    document.toString({ lineWidth: 0, flowCollectionPadding: !lists_in_line, doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER }),
    (character) => `\\U${hex(character.codePointAt(0)!, 8)}`,
  );
}
