import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack } from "@roamfleet/swarm/testing";
import { type Item } from "./http.ts";
import { httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);

test("every event of a deployment contains the deployment's status, even if it is about one robot", LIMIT, async () => {
  const fleet_id = await plane.fleet();
  const [well, unwell] = await plane.enrollRobots(2, { fleet_id });
  unwell?.behave(rollBack());
  const { id } = await plane.deploy(await plane.release(), { fleet_id });
  await plane.until("its end", async () => (await http.get(`/api/deployments/${id}`)).data.finished_at !== null);
  const { items } = await http.get(`/api/deployments/${id}/events?include=targets`);
  for (const event of items) {
    assert.deepEqual(Object.keys(event).toSorted(), [
      "actor",
      "at",
      "data",
      "id",
      "kind",
      "message",
      "reason",
      "robot_id",
      "seq",
      "status",
      "target_status",
    ]);
    const { kind, status, target_status } = event as { kind: string; status: string; target_status: string | null };
    assert.equal(kind, target_status === null ? `deployment.${status}` : `target.${target_status}`);
  }
  const terminal = items.filter(({ status }) => ["applied", "failed", "rolled_back", "cancelled"].includes(String(status)));
  assert.deepEqual(
    terminal.map(({ kind }) => kind),
    ["deployment.failed"],
    "a watcher that stops at the first terminal status stops at the end",
  );
  const own = (await http.get(`/api/deployments/${id}/events?robot_id=${well?.id ?? ""}`)).items.filter(
    ({ robot_id }) => robot_id !== null,
  );
  assert.ok(own.length > 0 && own.every(({ robot_id }) => robot_id === well?.id));
});

test("events of a config deployment are listed like those of a release deployment", LIMIT, async () => {
  const robot = await plane.enrollRobot();
  const { id } = await plane.deployConfig({ robot_id: robot.id });
  const last = await plane.until("a terminal status", async () =>
    (await http.get(`/api/configs/deployments/${id}/events`)).items.find(({ status }) => status === "applied"),
  );
  assert.equal(last.kind, "deployment.applied");
});

test("the timeline of a robot records connections, deployments and configs with their actor", LIMIT, async () => {
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.until("its end", async () => (await http.get(`/api/deployments/${id}`)).data.finished_at !== null);
  const config = await plane.deployConfig({ robot_id: robot.id });
  await plane.until("its end", async () => (await http.get(`/api/configs/deployments/${config.id}`)).data.finished_at !== null);
  await robot.disconnect();
  const items = await plane.until("the disconnect", async () => {
    const { items } = await http.get(`/api/robots/${robot.id}/timeline`);
    return items.some(({ kind }) => kind === "robot.disconnected") && items;
  });
  const find = (kind: string): Item => items.find((entry) => entry.kind === kind) ?? {};
  for (const kind of ["robot.enrolled", "robot.connected", "robot.disconnected", "deployment.applied", "config.applied"])
    assert.equal(find(kind).kind, kind);
  assert.deepEqual(Object.keys(find("robot.connected")).toSorted(), ["actor", "at", "data", "id", "kind", "summary"]);
});
