import assert from "node:assert/strict";
import { test } from "node:test";
import { isSameView, readView, viewQuery } from "./view-query.ts";

const PLAIN = { hidden: [], is_dense: false };

test("a view stores the URL parameters of any page and the settings of its table", () => {
  const contents = [
    { search: {}, table: undefined },
    { search: { q: "404", label: ["zone:a", "line:3"], status: "online" }, table: { hidden: ["Agent", "Health"], is_dense: true } },
    { search: { panels: [{ name: "cpu_percent", robot_id: ["rob_1"] }, { group_by: "label:a&b=c" }] }, table: undefined },
    { search: { following: true, since: "2030-01-01T00:00:00.000Z" }, table: PLAIN },
  ];
  for (const content of contents) assert.deepEqual(readView(viewQuery(content)), content);
});

test("the order of filters and hidden columns makes no difference", () => {
  const a = viewQuery({ search: { status: "online", q: "x", site_id: undefined }, table: { hidden: ["B", "A"], is_dense: false } });
  const b = viewQuery({ search: { q: "x", status: "online" }, table: { hidden: ["A", "B"], is_dense: false } });
  assert.equal(a, b);
});

test("a page shows a view while its filters and columns are those of the view", () => {
  const query = viewQuery({ search: { q: "x" }, table: { hidden: ["Agent"], is_dense: false } });
  assert.equal(isSameView(query, { search: { q: "x" }, table: { hidden: ["Agent"], is_dense: false } }), true);
  assert.equal(isSameView(query, { search: { q: "y" }, table: { hidden: ["Agent"], is_dense: false } }), false);
  assert.equal(isSameView(query, { search: { q: "x" }, table: PLAIN }), false);
  assert.equal(isSameView("q=x", { search: { q: "x" }, table: PLAIN }), true);
});

test("accepts a malformed query of a view", () => {
  for (const text of ["", "?", "&&=", "%", "%zz=%", "table=1", "table={", "__proto__=1", "a=[", "\u202e"])
    assert.equal(typeof viewQuery(readView(text)), "string", text);
  assert.deepEqual(readView("table=1").table, PLAIN);
});
