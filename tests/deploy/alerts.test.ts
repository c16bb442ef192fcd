import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { parse } from "yaml";
import { root } from "../../bin/launch.mjs";
import { ADMIN_TOKEN, type Harness, startPlane } from "../harness/index.ts";

const LIMIT = { timeout: 120_000 };
const RULES = path.join(root, "deploy/prometheus/alerts.yaml");
const is_installed = spawnSync("promtool", ["--version"]).status === 0;

let plane: Harness;
before(async () => {
  plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
}, LIMIT);
after(async () => await plane?.[Symbol.asyncDispose]());

async function scrape(): Promise<string> {
  const response = await fetch(`${plane.url}/metrics`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  assert.equal(response.status, 200);
  return await response.text();
}

const valueOf = (text: string, name: string): string | undefined => new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1];

test("every metric in an alert rule is exported by the server", LIMIT, async () => {
  const { groups } = parse(readFileSync(RULES, "utf8")) as { groups: { rules: { alert: string; expr: string }[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  assert.ok(rules.length >= 10);
  const known = new Set([...(await scrape()).matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name));
  for (const { alert, expr } of rules) {
    const named = expr.match(/\b(?:roamfleet|nodejs|process)_[a-z0-9_]+/g) ?? [];
    assert.ok(named.length > 0 || expr.startsWith("up{"), alert);
    for (const name of named) assert.ok(known.has(name), `${alert} names ${name}`);
  }
});

test("Prometheus accepts the alert rules", { ...LIMIT, skip: is_installed ? false : "promtool is not installed" }, () => {
  const { status, stdout, stderr } = spawnSync("promtool", ["check", "rules", RULES], { encoding: "utf8" });
  assert.equal(status, 0, stdout + stderr);
});

test("Prometheus accepts the example configuration", { ...LIMIT, skip: is_installed ? false : "promtool is not installed" }, () => {
  const words = ["check", "config", "--syntax-only", path.join(root, "deploy/prometheus/prometheus.yml")];
  const { status, stdout, stderr } = spawnSync("promtool", words, { encoding: "utf8" });
  assert.equal(status, 0, stdout + stderr);
});

test("exports metrics of the disk, the database, its connections and the last backup's age", LIMIT, async () => {
  const before_backup = await plane.until("the first sample", async () => {
    const text = await scrape();
    return valueOf(text, "roamfleet_backup_age_seconds") === "+Inf" && text;
  });
  for (const name of ["disk_free_bytes", "database_bytes", "wal_bytes"])
    assert.ok(Number(valueOf(before_backup, `roamfleet_${name}`)) > 1_000_000, name);
  assert.equal(valueOf(before_backup, "roamfleet_oldest_log_age_seconds"), "Nan");
  assert.equal(valueOf(before_backup, "roamfleet_database_restarts_total"), "0");
  assert.equal(valueOf(before_backup, "roamfleet_database_connections_waiting"), "0");
  const [node] = plane.data_directories;
  writeFileSync(path.join(node ?? "", "last-backup"), `${new Date(plane.clock.now().getTime() - 3_600_000).toISOString()}\n`);
  await plane.advance({ minutes: 1 });
  const age = await plane.until("the next sample", async () => {
    const seconds = Number(valueOf(await scrape(), "roamfleet_backup_age_seconds"));
    return Number.isFinite(seconds) && seconds;
  });
  assert.ok(age >= 3_600 && age < 3_720, `${age} s`);
});
