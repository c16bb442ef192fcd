import assert from "node:assert/strict";
import { test } from "node:test";
import type { Deployment, Incident, Overview } from "@roamfleet/protocol/routes";
import { type VerdictFacts, verdictOf } from "./verdict.ts";

const NOW = "2030-01-02T03:00:00.000Z";

interface Changes extends Partial<Omit<VerdictFacts, "overview">> {
  robots?: Partial<Overview["robots"]>;
  deployments?: Partial<Overview["deployments"]>;
  config_deployments?: Partial<Overview["config_deployments"]>;
}

const CALM: Pick<Overview, "robots" | "deployments"> = {
  robots: {
    total: 40,
    online: 40,
    offline: 0,
    never_connected: 0,
    unhealthy: 0,
    behind: 0,
    failed: 0,
    drifted: 0,
    held: 0,
    pending: 0,
    lost: 0,
    last_lost_at: null,
  },
  deployments: { scheduled: 0, queued: 0, in_progress: 0, paused: 0, waiting_gate: 0, failed: 0, failed_since: NOW, following: 0 },
};

function verdict({ robots, deployments, config_deployments, ...facts }: Changes = {}) {
  const found = verdictOf({
    overview: {
      robots: { ...CALM.robots, ...robots },
      deployments: { ...CALM.deployments, ...deployments },
      config_deployments: { in_progress: 0, paused: 0, waiting_gate: 0, ...config_deployments },
      unhealthy_robots: [],
    },
    incidents: [],
    has_more_incidents: false,
    failed: [],
    paused: [],
    is_loading: false,
    stale_since_ms: undefined,
    now_ms: Date.parse(NOW),
    ...facts,
  });
  return [
    found.tone,
    found.title,
    ...(found.gap === undefined ? [] : [found.gap]),
    ...found.findings.map(({ tone, text }) => `${tone}: ${text}`),
  ];
}

const incident = (severity: Incident["severity"], status: Incident["status"] = "open") =>
  ({ id: "inc_1", severity, status, raised_at: NOW }) as Incident;
const failedAt = (finished_at: string) => ({ id: "dep_1", finished_at }) as Deployment;

test("is green only if everything is known and nothing is wrong", () => {
  assert.deepEqual(verdict(), ["ok", "No problems: all 40 robots online"]);
  assert.deepEqual(verdict({ robots: { total: 41, never_connected: 1 } }), ["ok", "No problems: all 40 robots online, 1 never connected"]);
  assert.deepEqual(verdict({ robots: { total: 1, online: 1 } }), ["ok", "No problems: 1 robot online"]);
  assert.deepEqual(verdict({ robots: { total: 2, online: 0, never_connected: 2 } }), ["idle", "2 robots enrolled, none has connected yet"]);
  for (const [unknown, name] of [
    ["incidents", "incidents"],
    ["failed", "failed deployments"],
    ["paused", "paused deployments"],
  ] as const) {
    const gap = `Not loaded: ${name}. There may be more problems.`;
    assert.deepEqual(verdict({ [unknown]: undefined }), ["idle", "Not all data could be loaded", gap]);
    assert.deepEqual(verdict({ [unknown]: undefined, is_loading: true }), ["idle", `Loading ${name}`]);
  }
});

test("states next to known problems what could not be loaded", () => {
  const robots = { online: 39, offline: 1 };
  assert.deepEqual(verdict({ robots, incidents: undefined, paused: undefined }), [
    "warn",
    "Needs attention: 1 of 40 robots is offline",
    "Not loaded: incidents, paused deployments. There may be more problems.",
    "warn: 1 of 40 robots is offline",
  ]);
  assert.equal(verdict({ robots, incidents: undefined, is_loading: true }).length, 3);
});

test("is red if many robots are offline, and yellow if few are", () => {
  assert.deepEqual(verdict({ robots: { total: 1_005, online: 3, offline: 1_002, lost: 1_000, last_lost_at: NOW } }), [
    "bad",
    "1 problem: 1,002 of 1,005 robots are offline, 1,000 of them for less than 1 h",
    "bad: 1,002 of 1,005 robots are offline, 1,000 of them for less than 1 h",
  ]);
  assert.deepEqual(verdict({ robots: { online: 39, offline: 1, lost: 1 } }), [
    "warn",
    "Needs attention: 1 of 40 robots is offline",
    "warn: 1 of 40 robots is offline",
  ]);
  assert.equal(verdict({ robots: { total: 1, online: 0, offline: 1 } })[0], "bad");
  assert.equal(verdict({ robots: { total: 3, online: 2, offline: 1 } })[0], "warn");
});

test("is red for a deployment that failed today, and yellow for an older one", () => {
  const deployments = { failed: 2 };
  assert.equal(verdict({ deployments, failed: [failedAt("2030-01-02T02:00:00Z")] })[0], "bad");
  assert.equal(verdict({ deployments, failed: [failedAt("2029-12-30T02:00:00Z")] })[0], "warn");
  assert.equal(verdict({ deployments, failed: undefined })[0], "bad");
});

test("lists problems before warnings, and counts the problems", () => {
  assert.deepEqual(
    verdict({
      robots: { unhealthy: 2, drifted: 1, failed: 1, held: 1 },
      deployments: { paused: 1, waiting_gate: 1 },
      config_deployments: { paused: 2, waiting_gate: 1 },
      incidents: [incident("critical"), incident("warning", "acknowledged"), incident("warning"), incident("info")],
      has_more_incidents: true,
    }),
    [
      "bad",
      "4 problems: 2 of 40 robots are unhealthy",
      "bad: 2 of 40 robots are unhealthy",
      "bad: The last update failed on 1 robot",
      "bad: 1 robot quarantined: several machines use the same identity",
      "bad: 1 or more critical incident",
      "warn: 1 robot with a changed config file",
      "warn: 2 or more warning incidents, 1 acknowledged",
      "warn: 1 or more info incident",
      "warn: 1 deployment paused",
      "warn: 1 deployment awaiting promotion",
      "warn: 2 config deployments paused",
      "warn: 1 config deployment awaiting promotion",
    ],
  );
});

test("is never green while the server does not respond", () => {
  const stale_since_ms = Date.parse(NOW);
  assert.deepEqual(verdict({ stale_since_ms }), ["warn", "Out of date: the server is not responding"]);
  assert.equal(verdict({ stale_since_ms, robots: { unhealthy: 1 } })[0], "bad");
});
