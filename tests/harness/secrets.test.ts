import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { filesWithSecrets, refuseSecrets } from "./secrets.ts";

const SECRET = `rf_session_${"0123456789abcdef".repeat(4)}`;
const MEBIBYTE = 1024 * 1024;

test("finds a secret in any file below a directory, even if split over two reads, and reports no other file", (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-secrets-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const put = (name: string, content: string | Buffer): void => {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    writeFileSync(path.join(directory, name), content);
  };
  const at = (offset: number): Buffer => {
    const bytes = Buffer.alloc(2 * MEBIBYTE, "rf_rf_org_");
    bytes.write(SECRET, offset);
    return bytes;
  };
  put("a/b/first.log", at(0));
  put("a/.hidden/border.log", at(MEBIBYTE - 10));
  put("a/last.log", at(2 * MEBIBYTE - SECRET.length));
  // The reader reuses its buffer. Bytes of an earlier file must not count when a shorter file is read.
  put("b/empty", "");
  put("b/short", SECRET.slice(0, 20));
  put("blobs/uploaded", SECRET);
  symlinkSync("first.log", path.join(directory, "a/b/linked.log"));
  symlinkSync("nowhere", path.join(directory, "a/b/broken.log"));
  const expected = ["a/.hidden/border.log", "a/b/first.log", "a/b/linked.log", "a/last.log"];
  assert.deepEqual(filesWithSecrets(directory, [SECRET]).toSorted(), [...expected, "blobs/uploaded"]);
  assert.throws(
    () => refuseSecrets("it", { directory, outputs: [] }),
    ({ message }: Error) => {
      assert.deepEqual(
        message.replace("it left a secret in: ", "").split(", ").toSorted(),
        expected.map((file) => `file ${file}`),
      );
      return true;
    },
  );
  assert.throws(
    () => refuseSecrets("it", { outputs: [`token ${SECRET}`] }),
    /^Error: it left a secret in: its output \(rf_session_012…\)$/,
  );
  refuseSecrets("it", { directory: path.join(directory, "b"), outputs: ["rf_org_x"] });
});
