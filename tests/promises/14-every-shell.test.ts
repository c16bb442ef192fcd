import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { WebSocket } from "ws";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { processesNaming } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";

const ROUNDS = promiseSize({ test: 2, full: 12 });
const SHELLS = 3;
/** Number of lines recorded before a kill, one every 100 ms. */
const RECORDED_LINES = 10;
/** Maximum number of lines that may be missing in a recording: half a second and one write. Writes take longer while other tests run. */
const LATE_LINES_MAX = promiseSize({ test: Infinity, full: 15 });

test("every shell is recorded with its end or as aborted, despite kill -9 of server or agent", { timeout: 1_200_000 }, async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-shells-"));
  const config = path.join(directory, "agent.yaml");
  await writeFile(config, `shell: { user: ${userInfo().username} }\n`);
  await using server = await ServerProcess.start({ args: ["--limit", "token_requests_per_minute=100000"] });
  const { api, token } = await server.org("Watched");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using robot = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1", args: ["--config", config] });
  const robot_id = await robot.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  const mark = `watched-shell-${process.pid}`;
  const shells = (): unknown[] => processesNaming(mark);
  let [asked, shown] = [0, 0];

  /** Opens a shell that prints its position every 0.1 s; `text` returns what was received. */
  const openShell = async (): Promise<{ ws: WebSocket; text: () => string; over: Promise<unknown> }> => {
    const script = `i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.1; done`;
    const command = JSON.stringify(["sh", "-c", script, mark]);
    const query = new URLSearchParams({ token, command });
    const ws = new WebSocket(`${server.url.replace(/^http/, "ws")}/api/robots/${robot_id}/shell/ws?${query.toString()}`);
    let text = "";
    ws.on("error", () => {});
    ws.on("message", (data: Buffer) => (text += data.toString("utf8")));
    const over = new Promise((resolve) => ws.once("close", resolve));
    await Promise.race([once(ws, "open").catch(() => {}), over]);
    asked += 1;
    return { ws, text: () => text, over };
  };

  for (let round = 0; round < ROUNDS; round += 1) {
    const online = async () => (await api.getRobot({ params: { id: robot_id } })).data.status === "online";
    await until("the robot to be online", online, { deadline_ms: ROBOT_BACK_MS });
    const open = await Promise.all(Array.from({ length: SHELLS }, openShell));
    // One shell has printed something; the progress of the others is unknown.
    await until("a shell to show something", () => open.some(({ text }) => text().includes("line 15")));
    await until("some of it to be recorded", async () => (await longestRecording()) >= RECORDED_LINES);
    const victim = round % 2 === 0 ? server.program : robot.program;
    await victim.kill();
    await Promise.all(open.map(({ over }) => over));
    shown += open.reduce((lines, { text }) => lines + text().split("\n").length - 1, 0);
    if (round % 2 === 0) await server.restart();
    else robot.restart();
    await until("no shell to run on the robot", () => shells().length === 0);
    await until("each to be countEntries as over", async () =>
      (await api.listShellSessions({ params: { id: robot_id } })).items.every(({ status }) => status !== "open"),
    );
    for (const { text } of open) {
      const seen = text().split("\n").length - 1;
      const recorded = await longestRecording();
      assert.ok(recorded >= Math.max(RECORDED_LINES, seen - LATE_LINES_MAX), `${recorded} lines are recorded, ${seen} were seen`);
    }
  }

  /** Returns the number of lines in the longest recording of the newest shells. */
  async function longestRecording(): Promise<number> {
    const sessions = (await api.listShellSessions({ params: { id: robot_id } })).items.slice(0, SHELLS);
    const texts = await Promise.all(
      sessions.map(async ({ id }) => (await api.request("GET", `/api/shell-sessions/${id}/recording`)).text()),
    );
    return Math.max(...texts.map((text) => text.split("line ").length - 1));
  }

  const sessions = (await api.listShellSessions({ params: { id: robot_id } })).items;
  const { items } = await api.listRobotTimeline({ params: { id: robot_id }, query: { limit: 1000 } });
  const countEntries = (kind: string, id: string): number =>
    items.filter((entry) => entry.kind === kind && entry.data["session_id"] === id).length;
  for (const { id, status, reason } of sessions) {
    assert.deepEqual([countEntries("shell.opened", id), countEntries("shell.closed", id)], [1, 1], `${id} ${status} ${reason}`);
    assert.match(`${status} ${reason}`, /^(aborted (server_lost|agent_offline)|ended )/);
  }
  assert.equal(sessions.length, asked);
  const count = (wanted: string): number => sessions.filter(({ status }) => status === wanted).length;
  await rm(directory, { recursive: true, force: true });
  provePromise(
    t,
    14,
    `${ROUNDS} kill -9 of server and agent in turn while ${SHELLS} shells were open: ${sessions.length} sessions, ${count("ended")} ended and ` +
      `${count("aborted")} aborted, each with one start and one end on the timeline, ${shown} lines seen and recorded to the last second`,
  );
});
