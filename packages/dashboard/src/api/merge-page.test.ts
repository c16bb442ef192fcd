import assert from "node:assert/strict";
import { test } from "node:test";
import { collector, mergePage, pagesOf, type RowPage, uniqueRows } from "./merge-page.ts";

type Page = RowPage<string>;
const page = (rows: string, next_cursor: string | null = "more"): Page => ({ items: rows.split(""), next_cursor });
const key = (row: string): string => row;
const shown = (pages: readonly Page[]): string => uniqueRows(pages, key).join("");

test("keeps list rows that new rows pushed off a page", () => {
  const pages = mergePage([page("abc"), page("def")], 0, page("xyab"), key);
  assert.equal(shown(pages), "xyabcdef");
});

test("drops a removed row and shows rows of the next page only once", () => {
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("acd"), key)), "acdef");
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("abd"), key)), "abdef");
});

test("a refreshed last page has the cursor that follows its last row", () => {
  const [only] = mergePage([page("abc", "after c")], 0, page("acd", "after d"), key);
  assert.deepEqual(only, page("acd", "after d"));
  const [pushed] = mergePage([page("abc", "after c")], 0, page("xab", "after b"), key);
  assert.deepEqual(pushed, page("xabc", "after c"));
});

test("a refreshed page without a next cursor drops all later pages", () => {
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("ab", null), key)), "ab");
});

test("a refreshed page without known rows replaces this page and drops later pages", () => {
  assert.deepEqual(mergePage([page("abc"), page("def")], 0, page("xyz", "after z"), key), [page("xyz", "after z")]);
  assert.deepEqual(mergePage([page("abc"), page("def")], 1, page("xyz", "after z"), key), [page("abc"), page("xyz", "after z")]);
});

test("returns the pages that contain a range of rows", () => {
  const pages = [page("abc"), page("def"), page("gh")];
  assert.deepEqual(pagesOf(pages, 0, 2), [0]);
  assert.deepEqual(pagesOf(pages, 2, 3), [0, 1]);
  assert.deepEqual(pagesOf(pages, 6, 7), [2]);
  assert.deepEqual(pagesOf([page("", null)], 0, 0), [0]);
});

test("collects the rows of all pages incrementally without duplicates", () => {
  const collect = collector(key);
  const [first, second, other] = [page("abc"), page("cde"), page("xbc")];
  assert.equal(collect([first]).join(""), "abc");
  assert.equal(collect([first, second]).join(""), "abcde");
  assert.equal(collect([other, second]).join(""), "xbcde");
  assert.equal(collect([other]).join(""), "xbc");
});
