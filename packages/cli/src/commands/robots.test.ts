import assert from "node:assert/strict";
import { test } from "node:test";
import { RfHome } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";

const app = (name: string, tag: string | null, release_state: string) => ({
  app: name,
  current: tag === null ? null : { id: `rel_${tag}`, tag },
  release_state,
});
const robot = (id: string, apps: ReturnType<typeof app>[]) => ({
  id,
  name: id,
  status: "online",
  last_seen_at: null,
  apps,
  release_state: "current",
  config_state: "in_sync",
});

test("rf robots list shows the release of every app and marks a failed app", { timeout: 120_000 }, async () => {
  const items = [
    robot("rob_1", [app("main", "nav-1", "current")]),
    robot("rob_2", [app("camera", "cam-2", "current"), app("main", "nav-1", "failed"), app("voice", null, "unknown")]),
  ];
  await using home = await RfHome.make();
  await using peer = await ScriptedPeer.start(() => ({ body: { items, next_cursor: null } }));
  const { code, stdout, stderr } = await home.run(["robots", "list", "--columns", "id,release"], { env: peer.env });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^rob_1 +nav-1$/m);
  assert.match(stdout, /^rob_2 +camera cam-2, main nav-1 \(failed\), voice –$/m);
});
