import assert from "node:assert/strict";
import { test } from "node:test";
import { listenConnected } from "../../packages/server/src/engines/bus/testing/listening.ts";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { changesSubject } from "../../packages/server/src/features/events/announce.ts";
import { EventReader } from "../harness/event-reader.ts";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { connected, secondNode } from "../harness/second-node.ts";
import { checkTime } from "../harness/promise.ts";
import { Proxy } from "../harness/proxy.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 120_000 };
const BOUND_MS = 2_000;

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

test("a change on one node is immediately sent as an event to clients of the other node", OPTIONS, async (t) => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, settings: { bus: nats.address() } });
  await using second = await secondNode(first);
  await connected(first, second);
  using reader = await EventReader.open(second.url, bearer(first.default_org.admin_token));
  const began = performance.now();
  const site = await first.site("New");
  await reader.until("the site that the other node made", ({ data }) => data.id === site);
  const took = performance.now() - began;
  checkTime(t, "the change was an event on the other", took, BOUND_MS);
});

test("an event stream sends the event ready only when it can receive changes of other nodes", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using line = await Proxy.start(nats.port);
  // The server's clock is stopped, so only the response of NATS ends the wait, not its timeout.
  await using plane = await startPlane({ nodes: 1, at: "2030-01-01T00:00:00Z", settings: { bus: nats.address({ port: line.port }) } });
  await using other = await listenConnected({ address: nats.address() });
  await plane.until("the plane to be on the bus", () => plane.plane.bus.connected);
  line.shape = { delay_ms: 300 };
  using reader = await EventReader.open(plane.url, bearer(plane.default_org.admin_token));
  other.bus.publish(changesSubject(plane.default_org.id), { changes: [{ kind: "site", id: "sit_ready", change: "created" }] });
  await reader.until("the change that was published right after ready", ({ data }) => data.id === "sit_ready");
});

test("a token that is revoked on one node ends its event stream on the other", OPTIONS, async (t) => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, settings: { bus: nats.address() } });
  await using second = await secondNode(first);
  await connected(first, second);
  const issued = (await first.api.createToken({ body: { label: "short-lived", role: "viewer" } })).data;
  assert.ok(issued.token !== null);
  using reader = await EventReader.open(second.url, bearer(issued.token));
  const began = performance.now();
  await first.api.revokeToken({ params: { id: issued.id } });
  const took = (await reader.ended) - began;
  checkTime(t, "the stream ended", took, BOUND_MS);
});

test("a deployment created on one node immediately reaches a robot connected to the other", OPTIONS, async (t) => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, settings: { bus: nats.address() } });
  await using second = await secondNode(first);
  await connected(first, second);
  const robot = await first.enrollRobot({ online: false });
  first.swarm.url = second.url;
  await robot.connect();
  // The first deployment may be dispatched because the robot has just connected. Therefore later ones are tested too.
  for (let n = 1; n <= 3; n += 1) {
    const release = await first.release();
    const began = performance.now();
    const { id } = await first.deploy(release, { robot_id: robot.id });
    await first.until("the robot to be notified", () =>
      robot.received.some(({ apps }) => Object.values(apps).some(({ deployment_id }) => deployment_id === id)),
    );
    const took = performance.now() - began;
    checkTime(t, "the robot was notified", took, BOUND_MS);
  }
});

test("nodes stay ready without NATS, report the outage, and send clients the event lost", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, settings: { bus: nats.address() } });
  await using second = await secondNode(first);
  await connected(first, second);
  using reader = await EventReader.open(second.url, bearer(first.default_org.admin_token));
  const look = async (what: "readyz" | "metrics"): Promise<{ status: number; text: string }> => {
    const answer = await fetch(`${second.url}/${what}`, { headers: { "x-service-admin-token": ADMIN_TOKEN } });
    return { status: answer.status, text: await answer.text() };
  };
  const metric = async (name: string): Promise<number> =>
    Number(new RegExp(`^${name} (\\d+)$`, "m").exec((await look("metrics")).text)?.[1]);
  assert.equal(await metric("roamfleet_bus_connected"), 1);
  // A node counts as alive for the others once they have seen its heartbeat change.
  await first.until("each to see the other alive", async () => (await metric("roamfleet_nodes_living")) === 2);
  assert.ok((await look("metrics")).text.includes(`roamfleet_node_info{node_id="${second.plane.node.id}",version="`));
  const gaps = await metric("roamfleet_bus_gaps_total");
  await nats.kill();
  await first.until("both nodes know", () => !first.plane.bus.connected && !second.plane.bus.connected);
  const { status, text } = await look("readyz");
  assert.equal(status, 200);
  const ready = JSON.parse(text) as { node_id: string; checks: { bus: string } };
  assert.deepEqual([ready.node_id, ready.checks.bus], [second.plane.node.id, "not connected"]);
  assert.equal(await metric("roamfleet_bus_connected"), 0);
  const site = await first.site("Unannounced");
  assert.ok((await first.api.getSite({ params: { id: site } })).data);
  await nats.restart();
  await connected(first, second);
  await reader.until("the reader to receive lost", ({ event }) => event === "lost");
  assert.ok((await metric("roamfleet_bus_gaps_total")) > gaps);
});
