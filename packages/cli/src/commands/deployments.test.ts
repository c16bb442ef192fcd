import assert from "node:assert/strict";
import { test } from "node:test";
import { RfHome } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const AT = "2030-01-01T00:00:00.000Z";

type Told = [robot_id: string, status: string, reason?: string];

/**
 * Starts a server with one deployment to these robots. It lists targets newest first, like the real server; failed robots have a message.
 */
function peerOf(robots: Told[]): Promise<ScriptedPeer> {
  const count = (...of: string[]) => robots.filter(([, status]) => of.includes(status)).length;
  const counts = {
    total: robots.length,
    pending: count("pending"),
    queued: count("queued"),
    active: count("dispatched", "downloading", "verifying"),
    applied: count("applied"),
    failed: count("failed"),
    rolled_back: count("rolled_back"),
    cancelled: count("cancelled"),
  };
  const release = { id: "rel_1", tag: "v2", kind: "file", app: "main" };
  const whole = { wave: 0, wave_count: 1, scheduled_at: null, cancel_requested_at: null, paused_at: null, finished_at: null };
  const created = { created_by: { type: "user", name: "Ada" }, created_at: AT, started_at: AT, expires_at: AT };
  const target = { target_kind: "fleet", robot_id: null, fleet_id: "fleet_1" };
  const deployment = { id: "dep_1", release, ...target, status: "in_progress", reason: null, counts, ...created, ...whole };
  return ScriptedPeer.start(({ line }) => {
    const url = new URL(line.split(" ")[1] ?? "", "http://peer");
    const query = url.searchParams;
    if (url.pathname.endsWith("/targets")) {
      const found = robots.filter(([, status]) => (query.get("status") ?? status) === status).slice(0, Number(query.get("limit")));
      const items = found.map(([robot_id, status, reason = null]) => ({ robot_id, status, reason, waiting_for: null, updated_at: AT }));
      return { body: { items, next_cursor: null } };
    }
    if (url.pathname.endsWith("/events")) {
      const robot_says = `the process of ${query.get("robot_id")} ended with 7`;
      return { body: { items: [{ data: {} }, { data: { robot_says } }, { data: { target_id: "tgt_1" } }], next_cursor: null } };
    }
    return { body: { data: deployment } };
  });
}

/** Runs `rf deployments show`. Returns the robots of the table in order, and the lines below the table. */
async function show(peer: ScriptedPeer): Promise<{ table: string[]; below: string[] }> {
  await using home = await RfHome.make();
  const env = { ROAMFLEET_BASE_URL: peer.base_url, ROAMFLEET_TOKEN: "rfp_test" };
  const { code, stdout, stderr } = await home.run(["deployments", "show", "dep_1"], { env });
  assert.equal(code, 0, stderr);
  const lines = stdout.split("\n").slice(stdout.split("\n").findIndex((line) => line.startsWith("ROBOT")) + 1);
  return {
    table: lines.flatMap((line) => /^(rob_\w+) /.exec(line)?.[1] ?? []),
    below: lines.filter((line) => line !== "" && !/^rob_\w+ /.test(line)),
  };
}

test("rf deployments show lists failed robots first and prints their messages", TIMEOUT, async () => {
  await using peer = await peerOf([
    ["rob_waits", "pending"],
    ["rob_done", "applied"],
    ["rob_bad", "failed", "crash_loop"],
    ["rob_busy", "downloading"],
    ["rob_back", "rolled_back", "health_check_failed"],
  ]);
  const { table, below } = await show(peer);
  assert.deepEqual(table, ["rob_bad", "rob_back", "rob_busy", "rob_done", "rob_waits"]);
  assert.deepEqual(
    below,
    ["rob_bad", "rob_back"].map((id) => `${id}: the process of ${id} ended with 7`),
  );
});

test("rf deployments show lists failed robots even if many newer targets are queued", TIMEOUT, async () => {
  const many = (count: number, status: string): Told[] => Array.from({ length: count }, (_, i) => [`rob_${status}_${i}`, status]);
  await using peer = await peerOf([...many(50, "pending"), ...many(3, "verifying"), ...many(2, "failed"), ...many(30, "applied")]);
  const { table, below } = await show(peer);
  const kinds = Object.fromEntries(
    Array.from(
      Map.groupBy(table, (id) => id.split("_")[1]),
      ([kind, ids]) => [kind, ids.length],
    ),
  );
  assert.deepEqual(Object.entries(kinds), Object.entries({ failed: 2, verifying: 3, applied: 15 }));
  assert.match(below[0] ?? "", /^and 65 more/);
});
