import assert from "node:assert/strict";
import { test } from "node:test";
import { readAuditSearch } from "../../search.ts";
import { fromLocalInput, toLocalInput } from "../../ui/format.ts";
import { actionWords, auditCommand, exportPath, filterOf } from "./audit-search.ts";

test("the audit page drops invalid and unknown URL parameters", () => {
  assert.deepEqual(readAuditSearch({ actor_id: "usr_1", outcome: "maybe", since: "yesterday", until: 5, action: "", other: "x" }), {
    actor_id: "usr_1",
  });
});

test("the audit export and the rf command contain the filters but not the open entry", () => {
  const search = { actor_id: "usr_1", outcome: "refused" as const, since: "2030-01-01T00:00:00.000Z", entry: "aud_1" };
  const filter = { actor_id: "usr_1", outcome: "refused", since: "2030-01-01T00:00:00.000Z" };
  assert.deepEqual(filterOf({ ...search, reads: true }), filter);
  assert.deepEqual(filterOf(search), { ...filter, changes: true });
  assert.deepEqual(filterOf({ action: "exportRobotLogs" }), { action: "exportRobotLogs" });
  assert.equal(exportPath(search), "/api/audit/export?actor_id=usr_1&outcome=refused&since=2030-01-01T00%3A00%3A00.000Z&changes=true");
  assert.deepEqual(auditCommand(search), "rf audit --actor usr_1 --outcome refused --since 2030-01-01T00:00:00.000Z --changes");
  assert.equal(exportPath({ reads: true }), "/api/audit/export");
});

test("converts times to values of a date input and back", () => {
  const at = "2030-06-05T14:03:00.000Z";
  assert.equal(fromLocalInput(toLocalInput(at)), at);
  assert.equal(toLocalInput(undefined), "");
  assert.equal(fromLocalInput(""), undefined);
});

test("converts names of audit actions to words", () => {
  assert.equal(actionWords("getShellRecording"), "Get shell recording");
  assert.equal(actionWords("stream.opened"), "Open stream");
  assert.equal(actionWords("rollBackConfig"), "Roll back config");
  assert.equal(actionWords(""), "");
});
