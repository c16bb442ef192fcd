import assert from "node:assert/strict";
import { test } from "node:test";
import { isOutdatedAgent, versionNumbers } from "./agent-version.ts";

test("an agent is outdated if its version has a lower number than the hosted one", () => {
  for (const [version, hosted] of [
    ["0.1.9", "0.2.0"],
    ["0.9.0", "0.10.0"],
    ["1.0.0-rc.1", "1.0.1"],
  ] as const) {
    assert.equal(isOutdatedAgent(version, hosted), true, version);
    assert.equal(isOutdatedAgent(hosted, version), false, hosted);
  }
  for (const [version, hosted] of [
    ["0.1.0", "0.1.0"],
    ["0.1.0-rc.1", "0.1.0"],
    [null, "0.1.0"],
    ["0.1.0", null],
    ["main", "0.1.0"],
    ["0.1", "0.1.1"],
    ["0.0.0.1", "0.1.1"],
  ] as const)
    assert.equal(isOutdatedAgent(version, hosted), false, `${version} ${hosted}`);
  assert.deepEqual(["1.2.3-rc.1", "1.2.3", "1.2", "01234567890.1.1"].map(versionNumbers), ["1.2.3", "1.2.3", undefined, undefined]);
});
