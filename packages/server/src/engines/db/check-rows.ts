import type { FieldDef } from "pg";
import type { ColumnKind, RowShape } from "../../kernel/sql.ts";
import { OID } from "./values.ts";

const OIDS: Record<ColumnKind, readonly number[]> = {
  text: [OID.text, OID.varchar, OID.name, OID.uuid],
  int: [OID.int4, OID.int2],
  bigint: [OID.int8],
  float: [OID.float8, OID.float4],
  bool: [OID.bool],
  timestamptz: [OID.timestamptz],
  bytea: [OID.bytea],
  jsonb: [OID.jsonb, OID.json],
};

/**
 * Compares a result with the store's declaration: names, types and nulls. Throws on the first difference. Runs in tests only, for every
 * statement.
 */
export function checkRows(shape: RowShape, fields: readonly FieldDef[], rows: readonly unknown[], text: string): void {
  const problem = findProblem(shape, fields, rows);
  if (problem !== undefined) throw new Error(`${problem}, in: ${text.replace(/\s+/g, " ").trim().slice(0, 200)}`);
}

function findProblem(shape: RowShape, fields: readonly FieldDef[], rows: readonly unknown[]): string | undefined {
  const seen = new Set<string>();
  for (const field of fields) {
    const column = shape.columns[field.name];
    if (column === undefined) return `column ${field.name} is not declared in the row`;
    if (seen.has(field.name)) return `column ${field.name} comes twice`;
    seen.add(field.name);
    if (!OIDS[column.kind].includes(field.dataTypeID))
      return `column ${field.name} is declared ${column.kind} but has type ${field.dataTypeID}`;
  }
  for (const [name, column] of Object.entries(shape.columns)) {
    if (!seen.has(name)) return `column ${name} is declared but not answered`;
    if (!column.nullable && rows.some((row) => (row as Record<string, unknown>)[name] === null))
      return `column ${name} is null but not declared nullable`;
  }
  return undefined;
}
