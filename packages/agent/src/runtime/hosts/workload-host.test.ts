import assert from "node:assert/strict";
import { test } from "node:test";
import { scopeName } from "./scope.ts";
import { describeStatus, parseStatus } from "./workload-host.ts";

test("describes how a program ended, by the exit status that its wrapper stored", () => {
  const described = ["3\n", "137\n", "137 memory\n", "0", "", "137 mem", "-1"].map((text) => describeStatus(parseStatus(text)));
  const unknown = "ended with an unknown status";
  assert.deepEqual(described, [
    "exited with 3",
    "ended by SIGKILL",
    "ended by SIGKILL because it reached its memory limit",
    "exited with 0",
    unknown,
    unknown,
    unknown,
  ]);
});

test("escapes characters in an app's name that systemd does not allow in unit names", () => {
  assert.equal(scopeName("main"), "roamfleet-app-main.scope");
  assert.equal(scopeName("a-b/ü"), String.raw`roamfleet-app-a\x2db\x2f\xc3\xbc.scope`);
});
