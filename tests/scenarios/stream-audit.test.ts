import assert from "node:assert/strict";
import { test } from "node:test";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { opened } from "../spec/web-socket.ts";

const LIMIT = { timeout: 300_000 };

test("the audit log contains the start and end of each stream, even if the server is killed", LIMIT, async () => {
  await using server = await ServerProcess.start();
  const { api, token } = await server.org("Watched");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  // With several nodes, the robot's link and its viewers are on the node that is killed.
  await using robot = new AgentProcess({ url: server.own_url, key: key ?? "", name: "cart" });
  const online = async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id;
  const id = await robot.program.until("the robot to be online", online);
  const url = `${server.own_url}/api/robots/${id}/logs/ws?token=${token}`;
  const entriesOf = async (action: string) =>
    (await api.listAudit({ query: { action } })).items.map(({ request_id, data, status }) => ({ request_id, data, status }));

  const began = performance.now();
  const left = await opened(url);
  const first = String(left.headers["x-request-id"]);
  assert.deepEqual(await entriesOf("stream.opened"), [{ request_id: first, status: null, data: { stream: "logs" } }]);
  assert.deepEqual(await entriesOf("stream.closed"), []);
  left.ws.close(1000);
  await left.closed;
  const closed = await server.program.until("the end of the stream", async () => (await entriesOf("stream.closed"))[0]);
  const { duration_seconds, ...rest } = closed.data;
  assert.deepEqual({ ...closed, data: rest }, { request_id: first, status: 1000, data: { stream: "logs", reason: "viewer_left" } });
  const seconds_max = (performance.now() - began) / 1_000;
  assert.ok(typeof duration_seconds === "number" && duration_seconds >= 0 && duration_seconds <= seconds_max, String(duration_seconds));

  const lost = await opened(url);
  const second = String(lost.headers["x-request-id"]);
  await server.program.kill();
  assert.equal((await lost.closed).code, 1006);
  await server.restart();
  assert.deepEqual((await entriesOf("stream.opened"))[0]?.request_id, second);
  assert.deepEqual((await entriesOf("stream.closed"))[0], {
    request_id: second,
    status: null,
    data: { stream: "logs", reason: "server_lost", duration_seconds: null },
  });

  // A server that shuts down records the end of its streams itself.
  await robot.program.until("the robot to be back", online, { deadline_ms: ROBOT_BACK_MS });
  const drained = await opened(url);
  await server.program.stop();
  assert.equal((await drained.closed).code, 1013);
  await server.restart();
  const [last, ...others] = await entriesOf("stream.closed");
  assert.deepEqual([last?.request_id, last?.status, last?.data.reason], [drained.headers["x-request-id"], 1013, "draining"]);
  assert.equal(others.length, 2);
});
