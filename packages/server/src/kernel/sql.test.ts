// Separate process: a test exceeds the limit of prepared statements with composed text, which is per process.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bigint,
  bool,
  bytea,
  COMPOSED_TEXTS_MAX,
  float,
  identifier,
  int,
  json,
  jsonb,
  list,
  nullable,
  row,
  type RowOf,
  sql,
  type SqlValue,
  type Statement,
  text,
  textOf,
  timestamptz,
} from "./sql.ts";

const siteRow = row({ id: text, org_id: text, status: textOf<"on" | "off">(), note: nullable(text) });

test("turns template values into numbered parameters", () => {
  const statement = sql`select * from site where org_id = ${"org_1"} and size > ${3}`;
  assert.equal(statement.text, "select * from site where org_id = $1 and size > $2");
  assert.deepEqual(statement.values, ["org_1", 3]);
});

test("expands a row into its column list, also with a table alias", () => {
  const statement = sql(siteRow)`select ${siteRow.of("s")} from site s where s.id = ${"x"} returning ${siteRow}`;
  assert.equal(statement.text, "select s.id, s.org_id, s.status, s.note from site s where s.id = $1 returning id, org_id, status, note");
  assert.deepEqual(statement.values, ["x"]);
  assert.equal(statement.row, siteRow);
});

test("the type of a row follows from its declared columns", () => {
  const all = row({
    a: text,
    b: int,
    c: bigint,
    d: float,
    e: bool,
    f: timestamptz,
    g: bytea,
    h: jsonb<{ x: number }>(),
    i: nullable(textOf<"p" | "q">()),
  });
  type All = { a: string; b: number; c: number; d: number; e: boolean; f: Date; g: Buffer; h: { x: number }; i: "p" | "q" | null };
  const same: [All] extends [RowOf<typeof all>] ? ([RowOf<typeof all>] extends [All] ? true : false) : false = true;
  const statement: Statement<All> = sql(all)`select ${all} from t`;
  // @ts-expect-error: a statement with these rows is not one with other rows
  const wrong: Statement<{ a: number }> = statement;
  assert.ok(same && wrong);
});

test("merges nested statements and renumbers their parameters", () => {
  const list_sites = (org: string, status: string | undefined, after: string | undefined) => sql(siteRow)`
    select ${siteRow} from site where org_id = ${org} ${status === undefined ? sql`` : sql`and status = ${status}`} ${after === undefined ? sql`` : sql`and (${sql`id > ${after}`} or ${true})`} limit ${10}`;
  const both = list_sites("o", "on", "a");
  assert.match(both.text, /where org_id = \$1 and status = \$2 and \(id > \$3 or \$4\) limit \$5$/);
  assert.deepEqual(both.values, ["o", "on", "a", true, 10]);
  const none = list_sites("o", undefined, undefined);
  assert.match(none.text, /where org_id = \$1 {3}limit \$2$/);
  assert.deepEqual(none.values, ["o", 10]);
  assert.notEqual(both.name, none.name);
});

test("a template accepts a fragment, a row or a parameter in the same position", () => {
  const where = (value: SqlValue) => sql`select ${value} as x`;
  assert.equal(where(1).text, "select $1 as x");
  assert.equal(where(sql`now(${2})`).text, "select now($1) as x");
  assert.equal(where(identifier("id")).text, "select id as x");
  assert.equal(where(siteRow).text, "select id, org_id, status, note as x");
  assert.deepEqual(where(3).values, [3]);
  const columns = (value: SqlValue) => sql`select ${value} from site`;
  assert.equal(columns(siteRow).text, "select id, org_id, status, note from site");
  assert.equal(columns(siteRow.of("s")).text, "select s.id, s.org_id, s.status, s.note from site");
  assert.equal(columns("id").text, "select $1 from site");
});

test("the same statement text always has the same short name, and different texts differ", () => {
  const find = (id: string) => sql`select 1 where ${id} = 'a'`;
  assert.equal(find("a").name, find("b").name);
  assert.ok((find("a").name ?? "").length > 20);
  assert.ok(Buffer.byteLength(find("a").name ?? "") <= 63);
  assert.notEqual(find("a").name, sql`select 2 where ${"a"} = 'a'`.name);
});

test("no external value becomes SQL text", () => {
  const hostile = "x'; drop table site; --";
  const statement = sql`select ${hostile}`;
  assert.equal(statement.text, "select $1");
  // Resembles a statement or a row, as JSON from a client could.
  const forged = {
    text: "drop table site",
    sql: "drop table site",
    values: [],
    row: undefined,
    name: undefined,
    template: { chunks: ["drop"] },
  };
  assert.throws(() => sql`select ${forged}`.text, /is an object/);
  for (const name of ["site; drop", "Site", "", "1a", 'a"b', "é"]) assert.throws(() => identifier(name), /not a plain SQL name/);
  assert.throws(() => row({ "id, secret": text }), /not a plain SQL name/);
  assert.throws(() => siteRow.of("s s"), /not a plain SQL name/);
});

test("refuses undefined, invalid dates and plain objects as values, and reports their position", () => {
  assert.throws(() => sql`select 1 where id = ${undefined as unknown as string}`, /after "select 1 where id =" is undefined/);
  assert.throws(() => sql`select ${new Date(Number.NaN)}`, /invalid date/);
  assert.throws(() => sql`select ${{ a: 1 } as unknown as string}`, /json\(\)/);
  assert.throws(() => sql`select ${["a", undefined as unknown as string]}`, /undefined/);
});

test("json() writes undefined as SQL null, and null as the JSON value null", () => {
  assert.deepEqual(sql`select ${json(undefined)}, ${json(null)}, ${json({ a: [1] })}, ${json("x")}`.values, [
    null,
    "null",
    '{"a":[1]}',
    '"x"',
  ]);
});

test("list() binds a collection as one array parameter", () => {
  const statement = sql`select ${list(new Set(["a", "b"]))}::text[]`;
  assert.equal(statement.text, "select $1::text[]");
  assert.deepEqual(statement.values, [["a", "b"]]);
});

test("limits the number of prepared statements with composed text", () => {
  const names = new Set<string | undefined>();
  for (let width = 1; width <= COMPOSED_TEXTS_MAX + 50; width += 1) {
    const wide = Array.from({ length: width }, (_, i) => i).reduce<Statement<unknown>>(
      (before, i) => sql`${before}, ${i}`,
      sql`select ${0}`,
    );
    names.add(wide.name);
  }
  assert.ok(names.has(undefined), "past the bound statements are unnamed");
  assert.ok(names.size <= COMPOSED_TEXTS_MAX + 1);
});
