import assert from "node:assert/strict";
import { test } from "node:test";
import { collector, mergePage, pagesOf, type RowPage, uniqueRows } from "./merge-page.ts";

type Page = RowPage<string>;
const page = (rows: string, next_cursor: string | null = "more"): Page => ({ items: rows.split(""), next_cursor });
const key = (row: string): string => row;
const shown = (pages: readonly Page[] | undefined): string => (pages === undefined ? "lost" : uniqueRows(pages, key).join(""));

test("rows that new ones pushed off a page stay where they were", () => {
  const pages = mergePage([page("abc"), page("def")], 0, page("xyab"), key);
  assert.equal(shown(pages), "xyabcdef");
});

test("a row that went away is gone, and the page after it shows once", () => {
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("acd"), key)), "acdef");
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("abd"), key)), "abdef");
});

test("the last page goes on where the answer ends", () => {
  const [only] = mergePage([page("abc", "after c")], 0, page("acd", "after d"), key)!;
  assert.deepEqual(only, page("acd", "after d"));
  const [pushed] = mergePage([page("abc", "after c")], 0, page("xab", "after b"), key)!;
  assert.deepEqual(pushed, page("xabc", "after c"));
});

test("an answer that ends the list ends it, also for pages that were there", () => {
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("ab", null), key)), "ab");
});

test("so many new rows that none of the old ones is in the answer: the list is lost", () => {
  assert.equal(shown(mergePage([page("abc"), page("def")], 0, page("xyz"), key)), "lost");
});

test("the pages of some rows", () => {
  const pages = [page("abc"), page("def"), page("gh")];
  assert.deepEqual(pagesOf(pages, 0, 2), [0]);
  assert.deepEqual(pagesOf(pages, 2, 3), [0, 1]);
  assert.deepEqual(pagesOf(pages, 6, 7), [2]);
  assert.deepEqual(pagesOf([page("", null)], 0, 0), [0]);
});

test("rows of pages that come one after the other are those of all pages at once", () => {
  const collect = collector(key);
  const [first, second, other] = [page("abc"), page("cde"), page("xbc")];
  assert.equal(collect([first]).join(""), "abc");
  assert.equal(collect([first, second]).join(""), "abcde");
  assert.equal(collect([other, second]).join(""), "xbcde");
  assert.equal(collect([other]).join(""), "xbc");
});
