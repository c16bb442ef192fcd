import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import type { DesiredConfig, ReportBody } from "@roamfleet/protocol/link";
import { until } from "@roamfleet/clock/testing";
import { ConfigRunner } from "./config-runner.ts";

const CONTENT = '{"speed":1}';
const WISH: DesiredConfig = { target_id: "tgt_1", deployment_id: "cdep_1", attempt: 1, version: 1, sha256: hash("sha256", CONTENT) };

test("a config that is desired again while it is fetched is applied, not cancelled", async () => {
  const reports: ReportBody[] = [];
  const fetched = Promise.withResolvers<string>();
  const runner = new ConfigRunner("default", { report: (body) => reports.push(body), fetchConfig: () => fetched.promise });
  runner.wishFor(WISH);
  runner.wishFor({ ...WISH });
  fetched.resolve(CONTENT);
  await until("the file", () => runner.content === CONTENT);
  const statuses = reports.flatMap((report) => (report.kind === "target" ? [report.status] : []));
  assert.deepEqual(statuses, ["applied"]);
});

test("a config that is replaced while it is fetched is cancelled", async () => {
  const reports: ReportBody[] = [];
  const fetched = Promise.withResolvers<string>();
  const runner = new ConfigRunner("default", { report: (body) => reports.push(body), fetchConfig: () => fetched.promise });
  runner.wishFor({ ...WISH, sha256: hash("sha256", "another") });
  runner.wishFor({ ...WISH, target_id: "tgt_2", deployment_id: "cdep_2", version: 2 });
  fetched.resolve(CONTENT);
  await until("the file", () => runner.content === CONTENT);
  const targets = reports.flatMap((report) => (report.kind === "target" ? [`${report.target_id} ${report.status}`] : []));
  assert.deepEqual(targets, ["tgt_1 cancelled", "tgt_2 applied"]);
});
