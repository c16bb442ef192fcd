import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { allowedMount } from "./create-options.ts";

test("allowed directories may be mounted, but never the agent's state, an engine's socket, their parents, or symlinks to them", (t) => {
  const root = realpathSync(mkdtempSync(path.join(tmpdir(), "roamfleet-mounts-")));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const [state, run, data] = ["state", "run", "data"].map((name) => path.join(root, name)) as [string, string, string];
  for (const directory of [path.join(state, "apps"), run, data]) mkdirSync(directory, { recursive: true });
  const socket = path.join(run, "engine.sock");
  writeFileSync(socket, "");
  writeFileSync(path.join(run, "other"), "");
  symlinkSync(state, path.join(data, "elsewhere"));
  const guarded = [state, socket];
  assert.equal(allowedMount(data, [root], guarded), data);
  assert.equal(allowedMount(path.join(run, "other"), [root], guarded), path.join(run, "other"));
  for (const place of [root, state, path.join(state, "apps"), path.join(data, "elsewhere"), run, socket])
    assert.throws(() => allowedMount(place, [root], guarded), /contains the agent's own state, or the socket/, place);
  assert.throws(() => allowedMount(data, [state], guarded), /not below a directory/);
  assert.throws(() => allowedMount(path.join(root, "none"), [root], guarded), /does not exist/);
  assert.throws(() => allowedMount(data, [], guarded), /allows no mounts/);
});
