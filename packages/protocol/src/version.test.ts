import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { readCommit } from "./version.ts";

test("finds the Git commit of a branch, packed ref, detached HEAD or worktree", (t) => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-version-"));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const clone = path.join(root, "clone");
  const worktree = path.join(root, "worktree");
  const identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
  const git = (...args: string[]): string => execFileSync("git", [...identity, ...args], { cwd: clone, encoding: "utf8" }).trim();
  fs.mkdirSync(clone);
  assert.equal(readCommit(clone), undefined);
  git("init", "-q", "-b", "topic/one");
  assert.equal(readCommit(clone), undefined);
  git("commit", "-q", "--allow-empty", "-m", "one");
  const commit = git("rev-parse", "HEAD");
  assert.equal(readCommit(clone), commit);
  git("worktree", "add", "-q", "-b", "two", worktree);
  assert.equal(readCommit(worktree), commit);
  git("pack-refs", "--all");
  assert.deepEqual([readCommit(clone), readCommit(worktree)], [commit, commit]);
  git("checkout", "-q", "--detach");
  assert.equal(readCommit(clone), commit);
});
