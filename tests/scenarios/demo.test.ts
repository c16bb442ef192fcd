import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { processesNaming, Program } from "../processes/process.ts";

test("stopping the demo ends all of its processes, even if its output is no longer read", { timeout: 400_000 }, async (t) => {
  const data = mkdtempSync(path.join(tmpdir(), "roamfleet-demo-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const demo = new Program("tools/demo/main.ts", ["--data", data, "--listen", "127.0.0.1:0"]);
  t.after(() => demo.kill());
  await until("its database to be started", () => existsSync(path.join(data, "postgres")), { deadline_ms: 120_000 });
  demo.child.stdout?.destroy();
  demo.child.stderr?.destroy();
  demo.child.kill("SIGINT");
  const { code } = await demo.ended;
  assert.equal(code, 0);
  await until("its processes to be gone", () => processesNaming(data).length === 0);
});
