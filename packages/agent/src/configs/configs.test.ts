import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { ConfigReport, DesiredConfig } from "@roamfleet/protocol/link";
import { shellRelease } from "../testing/bundles.ts";
import { DeploymentsRig } from "../testing/deployments-rig.ts";

const options = { timeout: 120_000 };
const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

function serve(
  rig: DeploymentsRig,
  namespace: string,
  text: string,
  target_id: string | null,
  more: Partial<DesiredConfig> = {},
): Record<string, DesiredConfig> {
  rig.server.setConfig(namespace, Buffer.from(text));
  return { [namespace]: { version: 1, sha256: digest(text), target_id, deployment_id: target_id && "cdep_1", attempt: 1, ...more } };
}

const fileOf = (rig: DeploymentsRig, name: string): string => path.join(rig.state, "configs", name);
const configReports = (rig: DeploymentsRig): ConfigReport[] => rig.reports.filter((body): body is ConfigReport => body.kind === "config");

test("writes a deployed config to its file, reports it as applied and notifies the workload", options, async () => {
  await using rig = await DeploymentsRig.start();
  const listening = 'trap "exit 0" TERM; trap "cat $ROAMFLEET_CONFIG_DIR/default.json; echo" HUP; echo ready; while :; do sleep 0.05; done';
  await rig.ended(rig.deploy(await shellRelease("v1", listening, { reload: { signal: "SIGHUP" } })));
  await until("the workload to listen", () => rig.logs.some(({ message }) => message === "ready"));
  rig.want({}, serve(rig, "default", '{"greeting":"hej"}', "tgt_c"));
  const end = await rig.ended("tgt_c");
  assert.deepEqual([end.status, end.changed], ["applied", true]);
  assert.equal(fs.readFileSync(fileOf(rig, "default.json"), "utf8"), '{"greeting":"hej"}');
  assert.deepEqual(configReports(rig).at(-1), { kind: "config", namespace: "default", version: 1, sha256: digest('{"greeting":"hej"}') });
  await until("the workload to print its config", () =>
    rig.logs.some(({ source, message }) => source === "main" && message === '{"greeting":"hej"}'),
  );
});

test("reports a config target as applied but unchanged when the file already has the values", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.want({}, serve(rig, "default", "{}", "tgt_1"));
  await rig.ended("tgt_1");
  rig.want({}, serve(rig, "default", "{}", "tgt_2", { version: 2 }));
  assert.equal((await rig.ended("tgt_2")).changed, false);
  const told = rig.targetReports("tgt_2").length;
  rig.want({}, serve(rig, "default", "{}", "tgt_2", { version: 2 }));
  await until("the second report", () => rig.targetReports("tgt_2").length > told);
  assert.equal(rig.server.requests.length, 1);
});

test("applies a config that arrives immediately after a reconnect", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.want({}, serve(rig, "default", "{}", "tgt_1"));
  await rig.ended("tgt_1");
  const newer = serve(rig, "default", '{"greeting":"hej"}', "tgt_2", { version: 2 });
  // The network may deliver the welcome and the desired state, or two desired states, in one read.
  rig.deployments.announce();
  rig.want({}, newer);
  assert.equal((await rig.ended("tgt_2")).status, "applied");
});

test("a config namespace with path separators becomes one escaped file name in the config directory", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.want({}, serve(rig, "../../evil/x", "{}", "tgt_1"));
  assert.equal((await rig.ended("tgt_1")).status, "applied");
  assert.deepEqual(fs.readdirSync(fileOf(rig, "")), ["%2E.%2F..%2Fevil%2Fx.json"]);
});

test("never writes a config whose bytes do not match the announced digest", options, async () => {
  await using rig = await DeploymentsRig.start({ tuning: { timing: { download_tries: 1_000 } } });
  const configs = serve(rig, "default", "old", "tgt_1");
  rig.server.setConfig("default", Buffer.from("new"));
  rig.want({}, configs);
  await until("a few tries", () => rig.server.requests.length > 3);
  assert.ok(!fs.existsSync(fileOf(rig, "default.json")));
  rig.want({}, serve(rig, "default", "new", "tgt_2", { version: 2 }));
  assert.equal((await rig.ended("tgt_2")).status, "applied");
  assert.equal((await rig.ended("tgt_1")).status, "cancelled");
});

test("a config deployment fails after a limited number of failed downloads", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.server.trouble = () => ({ status: 500 });
  rig.want({}, serve(rig, "default", "{}", "tgt_1"));
  const end = await rig.ended("tgt_1");
  assert.deepEqual([end.status, end.reason], ["failed", "download_failed"]);
});

test("a config download refused with Retry-After does not count as a failed attempt", options, async () => {
  await using rig = await DeploymentsRig.start({ tuning: { timing: { download_tries: 2 } } });
  let asked = 0;
  rig.server.trouble = () => ((asked += 1) <= 5 ? { status: 503, headers: { "retry-after": "0" } } : undefined);
  rig.want({}, serve(rig, "default", "{}", "tgt_1"));
  assert.equal((await rig.ended("tgt_1")).status, "applied");
  assert.equal(asked, 6);
});

test("reports a config file changed or deleted by hand as drift and does not overwrite it", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.want({}, serve(rig, "default", "{}", "tgt_1"));
  await rig.ended("tgt_1");
  fs.writeFileSync(fileOf(rig, "default.json"), "by hand");
  await until("drift", () => configReports(rig).at(-1)?.sha256 === digest("by hand"));
  fs.rmSync(fileOf(rig, "default.json"));
  await until("the loss", () => configReports(rig).at(-1)?.sha256 === "");
  const told = configReports(rig).length;
  rig.deployments.announce();
  assert.equal(configReports(rig).length, told + 1);
  assert.ok(!fs.existsSync(fileOf(rig, "default.json")));
});

test("downloads a missing config without a target report if the desired state names no target", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.want({}, serve(rig, "default", "{}", null));
  await until("the file", () => fs.existsSync(fileOf(rig, "default.json")) && configReports(rig).length > 0);
  assert.deepEqual(
    rig.reports.filter(({ kind }) => kind === "target"),
    [],
  );
});
