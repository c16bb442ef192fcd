import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { removeAbandonedEngines } from "./docker-engine.ts";

const mount = (place: string): boolean => spawnSync("mount", ["-t", "tmpfs", "none", place]).status === 0;

test("removes directories and mounts of container engines only after their process has ended", async () => {
  const { pid: ended_pid } = spawnSync("true");
  const make = (pid: number): string => fs.mkdtempSync(path.join(os.tmpdir(), `rf-dockerd-${pid}-`));
  const [abandoned, used] = [make(ended_pid), make(process.pid)];
  try {
    const merged = path.join(abandoned, "data/overlay2/merged");
    fs.mkdirSync(merged, { recursive: true });
    const is_mounted = mount(merged);
    await removeAbandonedEngines();
    assert.deepEqual([fs.existsSync(abandoned), fs.existsSync(used)], [false, true]);
    if (is_mounted) assert.ok(!fs.readFileSync("/proc/self/mounts", "utf8").includes(abandoned));
  } finally {
    fs.rmSync(used, { recursive: true });
  }
});
