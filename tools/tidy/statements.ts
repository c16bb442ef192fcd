import { Visitor } from "oxc-parser";
import { lineAt, type SourceFile } from "./source.ts";

/** A piece of SQL in a source file: a whole statement, or a fragment that is interpolated into one. */
export interface SqlText {
  file: string;
  line: number;
  /** In lower case, without comments, and with `?` for interpolated values. */
  text: string;
  is_statement: boolean;
  /** Marked with a reason for accessing rows of all orgs: `-- across orgs: retention`. */
  is_across_orgs: boolean;
  reads: ReadonlySet<string>;
  writes: ReadonlySet<string>;
  /**
   * Tables of other owners that the statement declares as read. The declaration is `-- reads tables of other features: robot` in it, or the
   * same text after `//` on the line above it.
   */
  declared_reads: ReadonlySet<string>;
}

const STATEMENT = /^\(?\s*(select|insert|update|delete|with|truncate|copy|lock|merge)\b/;
const WRITES =
  /\b(?:insert\s+into|(?<!\bfor\s+(?:no\s+key\s+)?)update(?:\s+only)?|delete\s+from|truncate(?:\s+table)?|copy|merge\s+into)\s+([a-z_][a-z0-9_]*)/g;
const READS =
  /\b(?:from|join|using)\s+((?:only\s+)?[a-z_][a-z0-9_]*(?:\s+(?:as\s+)?(?!join\b|left\b|where\b|order\b)[a-z_][a-z0-9_]*)?(?:\s*,\s*[a-z_][a-z0-9_]*(?:\s+(?:as\s+)?(?!join\b|left\b|where\b|order\b)[a-z_][a-z0-9_]*)?)*)/g;

/**
 * Returns the SQL of templates tagged `sql`, `sql(row)` or `row.tag`. Finds tables by patterns, which suffice for plain statements: a table
 * is a word after from, join, using, into, update or delete. Counts only names in `tables`, not common table expressions and aliases.
 */
export function findSql(file: SourceFile, tables: ReadonlySet<string>): SqlText[] {
  const found: SqlText[] = [];
  new Visitor({
    TaggedTemplateExpression({ tag, quasi, start }) {
      const callee = tag.type === "CallExpression" ? tag.callee : tag;
      if (callee.type !== "Identifier" || callee.name !== "sql") return;
      const written = quasi.quasis.map(({ value }) => value.raw).join(" ? ");
      const text = plainSql(written);
      found.push({
        file: file.path,
        line: lineAt(file.text, start),
        text,
        is_statement: STATEMENT.test(text),
        is_across_orgs: /-- across orgs: \w/.test(written),
        reads: namesIn(text, READS, tables),
        writes: namesIn(text, WRITES, tables),
        declared_reads: declaredReads(written, commentAbove(file.text, start)),
      });
    },
  }).visit(file.program);
  return found;
}

function declaredReads(...places: readonly string[]): ReadonlySet<string> {
  const lists = places.flatMap((place) =>
    [...place.matchAll(/(?:--|\/\/) reads tables of other features: ([a-z_, ]+)/g)].map(([, names = ""]) => names.split(",")),
  );
  return new Set(lists.flat().map((name) => name.trim()));
}

/** Returns the comment line above the line of an offset, if any. */
function commentAbove(text: string, offset: number): string {
  const above = text.slice(0, offset).split("\n").at(-2)?.trim() ?? "";
  return above.startsWith("//") ? above : "";
}

function plainSql(text: string): string {
  return text
    .replace(/--[^\n]*/g, " ")
    .replace(/'(?:[^']|'')*'/g, "''")
    .replace(/\s+/g, " ")
    .trim()
    .toLowerCase();
}

function namesIn(text: string, pattern: RegExp, tables: ReadonlySet<string>): ReadonlySet<string> {
  const names = new Set<string>();
  for (const [, listed = ""] of text.matchAll(pattern)) {
    for (const item of listed.split(",")) {
      const name =
        item
          .trim()
          .replace(/^only /, "")
          .split(" ")[0] ?? "";
      if (tables.has(name)) names.add(name);
    }
  }
  return names;
}
