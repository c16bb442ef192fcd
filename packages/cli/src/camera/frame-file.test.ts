// Separate process: the test replaces PATH.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { openFrameFile } from "./frame-file.ts";

test("writing a frame reports an error if ffmpeg has exited", { timeout: 120_000 }, async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), "rf-frames-"));
  const search = process.env["PATH"];
  t.after(async () => {
    process.env["PATH"] = search;
    await rm(directory, { recursive: true });
  });
  const pid_file = path.join(directory, "pid");
  const script = `#!/bin/sh\necho "no space left" >&2\necho $$ > ${pid_file}.new\nmv ${pid_file}.new ${pid_file}\nexit 1\n`;
  await writeFile(path.join(directory, "ffmpeg"), script, { mode: 0o755 });
  process.env["PATH"] = `${directory}:${search}`;
  const file = await openFrameFile(path.join(directory, "x.mp4"));
  await until("it has begun", () => existsSync(pid_file));
  const pid = (await readFile(pid_file, "utf8")).trim();
  await until("it has ended", () => !existsSync(`/proc/${pid}`));
  await assert.rejects(file.write(Buffer.from("jpeg")), /ffmpeg could not write .*: no space left/);
});
