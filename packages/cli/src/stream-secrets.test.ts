import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { connect } from "node:net";
import { test } from "node:test";
import type { WebSocket } from "ws";
import { RfHome } from "./testing/run-rf.ts";
import { type Asked, type Script, ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const TOKEN = "rf_user_secret";
const robot = { id: "rob_1", name: "arm-1", status: "online" };
const script: Script = ({ line }) => ({ body: line.includes("?") ? { items: [robot], next_cursor: null } : { data: robot } });
/** The robot closes each stream immediately after it opens. */
const end = (socket: WebSocket): void => socket.close(4410, "seen enough");

/** Returns the requests of `rf`, as a proxy would log them. */
async function asked(words: readonly string[], on_output?: (child: ChildProcess, text: string) => void): Promise<Asked[]> {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(script, end);
  const env = { ...service.env, ROAMFLEET_TOKEN: TOKEN, ROAMFLEET_ORG: "org_1" };
  await home.run(words, { env, ...(on_output === undefined ? {} : { on_output }) });
  return service.asked;
}

function assertNoSecret(requests: readonly Asked[], path: string): void {
  for (const { line } of requests) assert.ok(!line.includes(TOKEN), line);
  const upgrade = requests.find(({ line }) => line.startsWith("UPGRADE "));
  const url = new URL(upgrade?.line.slice("UPGRADE ".length) ?? "", "http://proxy");
  assert.deepEqual(
    { path: url.pathname, org: url.searchParams.get("org_id"), authorization: upgrade?.headers.authorization },
    { path, org: "org_1", authorization: `Bearer ${TOKEN}` },
  );
}

for (const [words, path] of [
  [["robots", "logs", "rob_1", "--follow"], "/api/robots/rob_1/logs/ws"],
  [["fleets", "logs", "fleet_1", "--follow"], "/api/fleets/fleet_1/logs/ws"],
  [["robots", "shell", "rob_1", "--", "true"], "/api/robots/rob_1/shell/ws"],
  [["robots", "camera", "rob_1"], "/api/robots/rob_1/camera/ws"],
  [["robots", "topics", "rob_1", "list"], "/api/robots/rob_1/ros/topics/echo"],
  [["robots", "cp", "rob_1:/etc/hostname", "."], "/api/robots/rob_1/files/ws"],
] as const)
  test(`rf ${words.join(" ")} sends no secret in a URL`, TIMEOUT, async () => assertNoSecret(await asked(words), path));

test("rf robots forward sends no secret in a URL", TIMEOUT, async () => {
  let printed = "";
  let port: number | undefined;
  const requests = await asked(["robots", "forward", "rob_1", "0:80"], (child, text) => {
    printed += text;
    const listening = /127\.0\.0\.1:(\d+) →/.exec(printed)?.[1];
    if (listening === undefined || port !== undefined) return;
    port = Number(listening);
    // The end of the tunnel closes the connection.
    connect(port, "127.0.0.1")
      .resume()
      .on("error", () => {})
      .on("close", () => child.kill("SIGINT"));
  });
  assertNoSecret(requests, "/api/robots/rob_1/forward/ws");
});
