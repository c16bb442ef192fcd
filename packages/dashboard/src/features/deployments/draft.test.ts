import assert from "node:assert/strict";
import { test } from "node:test";
import { failureText, waveSizesText } from "./deployment-text.ts";
import { deployCommand, deployConfigCommand, EMPTY_DRAFT, errorAt, errorsOf, readDraft } from "./draft.ts";
import { CONFIG_PRESETS, presetOf, PRESETS, selectPreset } from "./presets.ts";

const NOW_MS = Date.parse("2030-01-01T00:00:00Z");
const target = { kind: "fleet", id: "fleet_1" } as const;
const lineOf = (rollout: Parameters<typeof deployCommand>[0]["rollout"], rest: object = {}): string =>
  deployCommand({ release: "1.4.0", target, rollout, ...rest });

test("the deploy command quotes names and needs no flags for an empty rollout", () => {
  assert.equal(lineOf({}), "rf deploy 1.4.0 --fleet fleet_1");
  assert.equal(
    deployCommand({ release: "it's $(new)", target: { kind: "robot", id: "rob_1" }, rollout: {} }),
    `rf deploy 'it'\\''s $(new)' --robot rob_1`,
  );
});

test("in the command that deploys configs, --namespace follows the target", () => {
  const rollout = { waves: [{ percent: 5 }], on_failure: "pause" as const };
  const selector = { site_id: "site_1", labels: { line: "3" } };
  assert.equal(
    deployConfigCommand({ namespace: "nav", target: { kind: "selection", selector }, rollout }),
    "rf configs deploy --site site_1 --label line=3 --namespace nav --wave 5% --on-failure pause",
  );
  assert.equal(deployConfigCommand({ namespace: undefined, target, rollout: {} }), "rf configs deploy --fleet fleet_1");
});

test("no preset for configs rolls back", () => {
  assert.deepEqual(
    CONFIG_PRESETS.map(({ label, draft }) => [label, draft.on_failure]),
    PRESETS.map(({ label, draft }) => [label, draft.on_failure === "rollback" ? "pause" : draft.on_failure]),
  );
});

test("the deploy command expresses rollout settings as flags where possible", () => {
  assert.equal(
    lineOf({
      waves: [
        { percent: 5, soak_seconds: 600, gate: "manual", gate_incidents: "warning" },
        { count: 20, soak_seconds: 600, gate: "manual", gate_incidents: "warning" },
        { labels: { zone: "a", type: "lift" }, soak_seconds: 600, gate: "manual", gate_incidents: "warning" },
      ],
      failure_threshold: { percent: 10, min_decided: 10 },
      on_failure: "rollback",
      max_parallel: 20,
      max_unavailable: { percent: 10, group_by: "site" },
      window: { cron: "0 2 * * 1-5", time_zone: "Europe/Berlin", duration_minutes: 120 },
      max_attempts: 5,
      verify_seconds: 90,
    }),
    "rf deploy 1.4.0 --fleet fleet_1 --wave 5% --wave 20 --wave labels:zone=a,type=lift --soak 10m --gate --gate-incidents warning " +
      "--fail-threshold 10% --min-decided 10 --on-failure rollback --max-parallel 20 --max-unavailable 10%/site --window '0 2 * * 1-5' " +
      "--window-zone Europe/Berlin --window-minutes 120 --max-attempts 5 --verify 90s",
  );
});

test("the deploy command passes waves that flags cannot express as a policy", () => {
  const waves = [{ percent: 1, soak_seconds: 60 }, { percent: 10 }];
  const line = lineOf({ waves });
  assert.match(line, /^rf deploy 1\.4\.0 --fleet fleet_1 --policy \/dev\/stdin <<'END'\n/);
  assert.deepEqual(JSON.parse(line.split("\n").slice(1, -1).join("\n")), { waves });
  assert.match(lineOf({ waves: [{ labels: { note: "a,b" } }] }), /--policy/);
});

test("the deploy command passes the expiry as a flag, or in the policy if scheduled", () => {
  const rollout = { expires_at: "2030-01-04T00:00:00.000Z" };
  assert.equal(lineOf(rollout, { expires_seconds: 259_200 }), "rf deploy 1.4.0 --fleet fleet_1 --expires-in 3d");
  const scheduled = lineOf(rollout, { expires_seconds: 86_400, scheduled_at: "2030-01-03T00:00:00.000Z" });
  assert.match(scheduled, /--scheduled-at 2030-01-03T00:00:00\.000Z --policy/);
  assert.match(scheduled, /"expires_at": "2030-01-04T00:00:00.000Z"/);
});

test("every rollout preset is a valid policy", () => {
  for (const { label, draft } of PRESETS) assert.deepEqual(readDraft({ ...EMPTY_DRAFT, ...draft }, "fleet", NOW_MS).errors, {}, label);
});

test("recognizes the preset of a draft, and a draft that was changed as custom", () => {
  for (const preset of PRESETS) {
    const draft = { ...EMPTY_DRAFT, threshold: "7", waves: [], ...selectPreset(preset), max_parallel: "4" };
    assert.equal(presetOf(draft), preset);
    assert.equal(presetOf({ ...draft, min_decided: "3" }), undefined);
  }
});

test("summarizes the waves and the failure policy of a plan", () => {
  const sizes = (...totals: number[]): string => waveSizesText(totals.map((total) => ({ total })));
  assert.equal(sizes(1, 2, 1_200), "1 robot, then 2, then 1,200");
  assert.equal(sizes(3, 1, 1, 1, 1, 1, 1), "3 robots, then 1, then 1, then 1, then 3 more waves");
  const policy = { max_parallel: null, max_unavailable: null, window: null, expires_at: null, max_attempts: 3, verify_seconds: 30 };
  const text = (waves: [] | null, failure_threshold: { percent?: number; min_decided: number } | null) =>
    failureText({ ...policy, waves, failure_threshold, on_failure: "pause" });
  assert.equal(text(null, null), undefined);
  assert.equal(text([], null), "pause if any robot fails");
  assert.equal(text([], { percent: 5, min_decided: 1 }), "pause if more than 5% fail");
});

test("omits waves and the failure threshold from a deployment to a single robot", () => {
  const { draft } = PRESETS[2]!;
  const { rollout } = readDraft({ ...EMPTY_DRAFT, ...draft }, "robot", NOW_MS);
  assert.deepEqual(rollout, { max_unavailable: { percent: 10, group_by: "site" } });
});

test("the deploy form reports each error at its field", () => {
  const { errors } = readDraft(
    {
      ...EMPTY_DRAFT,
      waves: [{ key: 1, by: "percent", amount: "0", soak: "soon", gate: false, incidents: "", metrics: "" }],
      max_parallel: "1.5",
      has_window: true,
      cron: "at night",
      scheduled_at: "2029-12-31T00:00",
      expires_in: "3 weeks",
    },
    "fleet",
    NOW_MS,
  );
  assert.deepEqual(Object.keys(errors).toSorted(), [
    "rollout.expires_at",
    "rollout.max_parallel",
    "rollout.waves.0.percent",
    "rollout.waves.0.soak_seconds",
    "rollout.window.cron",
    "scheduled_at",
  ]);
});

test("maps a server error to the form field that it names", () => {
  const errors = errorsOf("rollout.window.time_zone is not a known time zone; use a name such as Europe/Berlin");
  assert.match(errorAt(errors ?? {}, "rollout.window.time_zone") ?? "", /time zone/);
  assert.match(errorAt(errors ?? {}, "rollout.window") ?? "", /time zone/);
  assert.equal(errorAt(errors ?? {}, "rollout.win"), undefined);
  assert.equal(errorsOf("fleet fleet_1 has no robots"), undefined);
});
