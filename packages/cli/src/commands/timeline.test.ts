import assert from "node:assert/strict";
import { test } from "node:test";
import { RfHome } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const AT = "2030-01-01T00:00:00.000Z";
const ENTRIES = Array.from({ length: 450 }, (_, n) => ({
  id: `evt_${n}`,
  at: AT,
  kind: "robot.connected",
  actor: { type: "robot", name: null },
  summary: `entry ${n}`,
  robot_id: "rob_1",
  robot_name: "cart-1",
  data: {},
}));

/** Starts a server with 450 timeline entries, which returns 200 of them if the request has no limit. */
const startService = (): Promise<ScriptedPeer> =>
  ScriptedPeer.start(({ line }) => {
    const { searchParams } = new URL(line.split(" ")[1] ?? "", "http://peer");
    const from = Number(searchParams.get("cursor") ?? 0);
    const to = from + Number(searchParams.get("limit") ?? 200);
    return { body: { items: ENTRIES.slice(from, to), next_cursor: to < ENTRIES.length ? String(to) : null } };
  });

for (const [words, shown] of [
  [["timeline"], 50],
  [["robots", "timeline", "rob_1"], 200],
] as const) {
  test(`rf ${words.join(" ")} prints ${shown} entries as a table and all entries with --json`, TIMEOUT, async () => {
    await using home = await RfHome.make();
    await using service = await startService();
    const run = (more: readonly string[]) => home.run([...words, ...more], { env: service.env });
    const people = await run([]);
    assert.equal(people.code, 0, people.stderr);
    assert.equal(people.stdout.match(/entry \d+/g)?.length, shown);
    assert.match(people.stderr, /entries exist: use --limit/);
    const program = JSON.parse((await run(["--json"])).stdout) as { items: unknown[]; next_cursor: string | null };
    assert.deepEqual(program, { items: ENTRIES, next_cursor: null });
    const limited = JSON.parse((await run(["--json", "--limit", "7"])).stdout) as { items: unknown[] };
    assert.equal(limited.items.length, 7);
  });
}
