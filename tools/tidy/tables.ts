import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Finding, SourceFile } from "./source.ts";
import { findSql, type SqlText } from "./statements.ts";

/** Owners of tables; the actual ones are in table-owners.ts. */
export interface TableRules {
  owners: Readonly<Record<string, string>>;
  without_org: ReadonlySet<string>;
}

const SERVER = "packages/server/src/";

/** Returns the tables that a folder's migrations create, with the file and whether they have an org_id column. */
export function readTables(directory: string): Map<string, { file: string; has_org_id: boolean }> {
  const tables = new Map<string, { file: string; has_org_id: boolean }>();
  for (const file of globSync("packages/server/migrations/*.sql", { cwd: directory }).toSorted()) {
    const text = readFileSync(path.join(directory, file), "utf8").replace(/--[^\n]*/g, "");
    for (const [, name = "", body = ""] of text.matchAll(
      /create\s+(?:unlogged\s+)?table\s+(?:if\s+not\s+exists\s+)?([a-z_0-9]+)([^;]*);/gi,
    )) {
      tables.set(name, { file, has_org_id: /\borg_id\b/.test(body) || /\bpartition\s+of\b/i.test(body) });
    }
    for (const [, name = ""] of text.matchAll(/drop\s+table\s+(?:if\s+exists\s+)?([a-z_0-9]+)/gi)) tables.delete(name);
  }
  return tables;
}

/** Finds tables without an owner, owners without a table, and tables without org_id that are not exempt. */
export function findBadTables(tables: ReturnType<typeof readTables>, { owners, without_org }: TableRules): Finding[] {
  const findings: Finding[] = [];
  for (const [name, { file, has_org_id }] of tables) {
    if (!(name in owners)) findings.push({ file, line: 1, message: `table ${name} has no owner in tools/tidy/table-owners.ts` });
    if (!has_org_id && !without_org.has(name)) findings.push({ file, line: 1, message: `table ${name} has no org_id and is not exempt` });
  }
  if (tables.size === 0) return findings;
  for (const name of Object.keys(owners)) {
    if (!tables.has(name)) findings.push({ file: "tools/tidy/table-owners.ts", line: 1, message: `no migration creates ${name}` });
  }
  return findings;
}

/** Finds SQL that is outside a store, uses a table of another feature, or does not name org_id. */
export function findBadSql(files: readonly SourceFile[], tables: ReadonlySet<string>, rules: TableRules): Finding[] {
  const product = files.filter((file) => file.is_product && file.path.startsWith(SERVER));
  return product.flatMap((file) =>
    findSql(file, tables).flatMap((sql) => problemsOf(sql, rules).map((message) => ({ file: sql.file, line: sql.line, message }))),
  );
}

function problemsOf(
  { file, text, is_statement, is_across_orgs, reads, writes, declared_reads }: SqlText,
  { owners, without_org }: TableRules,
): string[] {
  const touched = [...new Set([...reads, ...writes])];
  if (touched.length === 0) return [];
  const place = placeOf(file);
  const problems: string[] = [];
  if (place.startsWith("features/") && !isStore(file)) problems.push("a feature's SQL belongs in its store.ts");
  for (const table of touched) {
    if (owners[table] === place) continue;
    if (writes.has(table) || !declared_reads.has(table)) problems.push(`table ${table} belongs to ${owners[table] ?? "no feature"}`);
  }
  const names_org = /\borg_id\b/.test(text) || is_across_orgs || /^insert into [a-z_]+ \( \?/.test(text);
  for (const table of declared_reads) {
    if (!reads.has(table)) problems.push(`says that it reads ${table}, and does not`);
  }
  if (is_statement && !names_org && !touched.every((table) => without_org.has(table)))
    problems.push("a statement on tenant data names org_id");
  return problems;
}

/** Returns the folder that owns the tables of a file: `features/robots`, `link`, `engines/db`. */
function placeOf(file: string): string {
  const [first = "", second = "", ...rest] = file.slice(SERVER.length).split("/");
  return first === "features" || (first === "engines" && rest.length > 0) ? `${first}/${second}` : first;
}

/** Reports whether a file is store.ts, a part of it (store-events.ts, event-store.ts), or in a folder store/. */
function isStore(file: string): boolean {
  return /\/store\/|\/(?:[a-z0-9-]+-)?store(?:-[a-z0-9-]+)?\.ts$/.test(file);
}
