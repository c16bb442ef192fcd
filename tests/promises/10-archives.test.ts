import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { seededRandom } from "@roamfleet/clock";
import { StepFailure } from "../../packages/agent/src/runtime/failure.ts";
import { unpackBounds, unpackBundle } from "../../packages/agent/src/runtime/unpack.ts";
import { tarGz, type TestEntry } from "../../packages/agent/src/testing/bundles.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";

const ARCHIVES = promiseSize({ test: 400, full: 10_000 });
const BOMB_BYTES = 80 * 1024 * 1024;

/** Parts from which names and link targets are generated: every known way to leave a directory, and harmless parts between them. */
const PIECES = [
  "..",
  ".",
  "a",
  "b",
  "A",
  "l",
  "",
  "outside",
  "..\\",
  "a\0",
  "ﬁ",
  "é",
  "e\u0301",
  " ",
  "con",
  "n".repeat(300),
  "~",
  "%2e%2e",
];
const TYPES = ["file", "directory", "symlink", "link", "character-device", "block-device", "fifo", "contiguous-file"] as const;

const of = <T>(random: () => number, from: readonly T[]): T => from[Math.floor(random() * from.length)]!;

function hostilePath(random: () => number): string {
  const pieces = Array.from({ length: 1 + Math.floor(random() * 5) }, () => of(random, PIECES));
  return (random() < 0.15 ? "/" : "") + pieces.join("/");
}

function hostileEntry(random: () => number): TestEntry {
  const type = of(random, TYPES);
  const name = hostilePath(random);
  // A pax header can contain names that do not fit into the old header.
  const pax = random() < 0.3 || name.length > 90 ? { pax: { path: name } } : {};
  if (type === "file" || type === "contiguous-file") return { name, type, content: "!", mode: 0o6777, ...pax };
  const linkname = random() < 0.2 ? of(random, ["/etc/passwd", "/", "..", "l/../../outside"]) : hostilePath(random);
  if (type === "symlink" || type === "link") return { name, type, linkname, ...pax };
  return { name, type, devmajor: 1, devminor: 3, ...pax };
}

/** Returns everything below `root` with its content, except the directory into which the archive may be extracted. */
function outside(root: string): string[] {
  return fs
    .readdirSync(root, { recursive: true, withFileTypes: true })
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((name) => name !== "archive" && name.split("/")[0] !== "into")
    .toSorted()
    .map((name) => {
      const file = path.join(root, name);
      const status = fs.lstatSync(file);
      return `${name} ${status.mode} ${status.ino} ${status.nlink} ${status.isFile() ? fs.readFileSync(file, "utf8") : ""}`;
    });
}

/** Checks that everything extracted is inside: no special files, and no link that leads outside. */
function checkInside(directory: string): void {
  const real = fs.realpathSync(directory);
  for (const entry of fs.readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name);
    assert.ok(entry.isFile() || entry.isDirectory() || entry.isSymbolicLink(), `${file} is neither file, folder nor link`);
    assert.ok(`${fs.realpathSync(file)}/`.startsWith(`${real}/`), `${file} leads to ${fs.realpathSync(file)}`);
    if (entry.isFile()) assert.equal(fs.lstatSync(file).mode & 0o7000, 0, `${file} is setuid, setgid or sticky`);
  }
}

test("unpacking a hostile archive never writes outside of the target directory", { timeout: 900_000 }, async (t) => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-archives-"));
  const seed = 11;
  const random = seededRandom(seed);
  try {
    fs.writeFileSync(path.join(root, "outside"), "untouched");
    fs.mkdirSync(path.join(root, "a"));
    fs.writeFileSync(path.join(root, "a", "outside"), "untouched");
    const before = outside(root);
    const directory = path.join(root, "into");
    let refused = 0;
    for (let round = 0; round < ARCHIVES; round += 1) {
      const entries = Array.from({ length: 1 + Math.floor(random() * 6) }, () => hostileEntry(random));
      const bytes = await tarGz([{ name: "good", content: "good" }, ...entries]).catch(() => undefined);
      // Some generated names cannot be put into an archive.
      if (bytes === undefined) continue;
      fs.writeFileSync(path.join(root, "archive"), bytes);
      const shown = `seed ${seed}, round ${round}: ${JSON.stringify(entries)}`;
      try {
        await unpackBundle(path.join(root, "archive"), directory, unpackBounds(bytes.length), new AbortController().signal);
        checkInside(directory);
      } catch (error) {
        assert.ok(error instanceof StepFailure, `${shown}: ${String(error)}`);
        assert.ok(!fs.existsSync(directory), `${shown}: something is left`);
        refused += 1;
      }
      assert.deepEqual(outside(root), before, shown);
      fs.rmSync(directory, { recursive: true, force: true });
    }
    assert.ok(refused > ARCHIVES / 2 && refused < ARCHIVES, `${refused} of ${ARCHIVES} refused: the archives are not what they are to be`);
    for (const bomb of [gzipSync(Buffer.alloc(BOMB_BYTES)), await tarGz([{ name: "zeros", content: Buffer.alloc(BOMB_BYTES) }])]) {
      fs.writeFileSync(path.join(root, "archive"), bomb);
      await assert.rejects(
        unpackBundle(path.join(root, "archive"), directory, unpackBounds(bomb.length), new AbortController().signal),
        /unpacks to more than/,
      );
      assert.ok(!fs.existsSync(directory));
    }
    assert.deepEqual(outside(root), before);
    provePromise(
      t,
      10,
      `0 writes outside in ${ARCHIVES} archives of hostile names, links, devices and bombs; ${refused} refused, the others unpacked inside`,
    );
  } finally {
    fs.rmSync(root, { recursive: true, force: true });
  }
});
