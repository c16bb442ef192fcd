import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { beforeEach, afterEach, test } from "node:test";
import { Journal } from "./journal.ts";

interface Note {
  key: string;
  value: string;
}

let directory: string;
let file: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-journal-"));
  file = path.join(directory, "journal");
});
afterEach(() => fs.rmSync(directory, { recursive: true, force: true }));

const open = (): { journal: Journal<Note>; damaged: number } => Journal.open<Note>(file, ({ key }) => key);

function write(...notes: Note[]): void {
  const { journal } = open();
  for (const note of notes) journal.append(note);
  journal.close();
}

test("the journal returns the newest record of each key after a restart", () => {
  write({ key: "a", value: "1" }, { key: "b", value: "1" }, { key: "a", value: "2" });
  const { journal, damaged } = open();
  assert.deepEqual(
    [...journal.records.values()],
    [
      { key: "a", value: "2" },
      { key: "b", value: "1" },
    ],
  );
  assert.equal(damaged, 0);
  journal.close();
});

test("the journal file is readable only by its owner, even if created with a wider mode", () => {
  fs.writeFileSync(file, "", { mode: 0o644 });
  write({ key: "a", value: "1" });
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
});

test("a journal line truncated at any byte loses only that record", () => {
  write({ key: "a", value: "old" });
  const whole = fs.statSync(file).size;
  write({ key: "a", value: "new" });
  const bytes = fs.readFileSync(file);
  for (let length = whole; length < bytes.length; length += 1) {
    fs.writeFileSync(file, bytes.subarray(0, length));
    const { journal } = open();
    assert.equal(journal.records.get("a")?.value, "old", `torn after ${length} bytes`);
    journal.append({ key: "b", value: "later" });
    journal.close();
    const again = open();
    assert.equal(again.journal.records.get("b")?.value, "later");
    again.journal.close();
  }
});

test("skips and counts a damaged line in the middle of the journal", () => {
  write({ key: "a", value: "1" }, { key: "b", value: "1" }, { key: "c", value: "1" });
  const lines = fs.readFileSync(file, "utf8").split("\n");
  fs.writeFileSync(file, [lines[0], lines[1]!.replace("1", "2"), ...lines.slice(2)].join("\n"));
  const { journal, damaged } = open();
  assert.deepEqual([...journal.records.keys()], ["a", "c"]);
  assert.equal(damaged, 1);
  journal.close();
});

test("compaction bounds the journal file and keeps the newest record of each key", () => {
  const { journal } = open();
  const value = "x".repeat(10_000);
  for (let count = 0; count < 500; count += 1) journal.append({ key: `k${count % 7}`, value: `${count} ${value}` });
  journal.append({ key: "last", value: "1" });
  journal.close();
  assert.ok(fs.statSync(file).size < 1_000_000);
  const again = open();
  assert.equal(again.journal.records.size, 8);
  assert.ok(again.journal.records.get("k2")?.value.startsWith("499 "));
  again.journal.close();
});
