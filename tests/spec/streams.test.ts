import assert from "node:assert/strict";
import { userInfo } from "node:os";
import { test } from "node:test";
import { RosbridgeServer } from "../../packages/agent/src/ros/testing/rosbridge-server.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { freshKey } from "./http.ts";
import { httpOf, realRobot, robotConfig, sharedPlane } from "./spec-plane.ts";
import { opened, openSocket, refused } from "./web-socket.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await realRobot(plane, "arm-1", [
  "--config",
  robotConfig({ cameras: [{ name: "test", test_picture: true }], shell: { user: userInfo().username, command: ["bash", "--norc", "-i"] } }),
]);
const token = plane.default_org.admin_token;
const PATHS = ["logs/ws", "shell/ws", "camera/ws", "ros/topics/echo"];
const at = (path: string, query: string, id = robot.id): string => `${plane.url}/api/robots/${id}/${path}?${query}`;

test("WebSocket /api/robots/{id}/logs/ws sends the latest log records and then new ones as JSON", LIMIT, async () => {
  const stored = await plane.until("stored records", async () => {
    const { items } = await http.get(`/api/robots/${robot.id}/logs`);
    return items.length > 0 && items;
  });
  const stream = await opened(at("logs/ws", `token=${token}`));
  await plane.until("what was stored", () => stream.frames.length >= stored.length);
  assert.deepEqual(JSON.parse(String(stream.frames[0])), stored[0]);
  const release = await pushBundle(plane.api, "talks-1", await appBundle());
  await http.post("/api/deployments", { release, robot_id: robot.id, rollout: { verify_seconds: 0 } }, freshKey());
  await plane.until("what the app says", () => stream.frames.some((frame) => String(JSON.parse(String(frame)).message).startsWith("up ")));
  const seqs = stream.frames.map((frame) => Number(JSON.parse(String(frame)).seq));
  assert.deepEqual(
    seqs,
    [...new Set(seqs)].toSorted((a, b) => a - b),
    "each record once, in order",
  );
  stream.ws.close();
  assert.equal((await stream.closed).code, 1005);
});

test("WebSocket /api/robots/{id}/logs/ws of an offline robot sends stored records and closes with 4409 agent offline", LIMIT, async () => {
  const gone = await plane.enrollRobot();
  gone.log("last words");
  await plane.until("its record", async () => (await http.get(`/api/robots/${gone.id}/logs`)).items.length === 1);
  await gone.disconnect();
  await plane.until("its going", async () => (await http.get(`/api/robots/${gone.id}`)).data.status === "offline");
  const stream = await opened(at("logs/ws", `token=${token}`, gone.id));
  assert.deepEqual(await stream.closed, { code: 4409, reason: "agent offline" });
  assert.deepEqual(
    stream.frames.map((frame) => String(JSON.parse(String(frame)).message)),
    ["last words"],
  );
});

test("WebSocket /api/robots/{id}/shell/ws carries the bytes of a terminal of the requested size in both directions", LIMIT, async () => {
  const shell = await opened(at("shell/ws", `token=${token}&cols=101&rows=29`));
  shell.ws.send(Buffer.from("stty size\r"));
  shell.ws.send("echo $((6*7))ü\r");
  const shown = (): string => Buffer.concat(shell.frames.map((frame) => Buffer.from(frame))).toString("utf8");
  await plane.until("the answers", () => shown().includes("29 101") && shown().includes("42ü"));
  assert.ok(shell.frames.every((frame) => typeof frame !== "string"));
  shell.ws.send("exit 3\r");
  assert.deepEqual(await shell.closed, { code: 1000, reason: "exit 3" });
});

test("WebSocket /api/robots/{id}/camera/ws sends the JPEG frames of the camera in ?camera=, or of the first camera", LIMIT, async () => {
  for (const query of ["", "&camera=test&width=320&fps=5"]) {
    const stream = await opened(at("camera/ws", `token=${token}${query}`));
    await plane.until("some frames", () => stream.frames.length >= 3);
    for (const frame of stream.frames) {
      assert.ok(Buffer.isBuffer(frame));
      assert.deepEqual([frame.subarray(0, 2).toString("hex"), frame.subarray(-2).toString("hex")], ["ffd8", "ffd9"]);
    }
    stream.ws.close();
  }
  const unknown = await opened(at("camera/ws", `token=${token}&camera=rear`));
  assert.deepEqual(await unknown.closed, { code: 4410, reason: "this robot has no camera of that name, only test" });
  const listed = await opened(at("camera/ws", `token=${token}&list`));
  assert.equal((await listed.closed).code, 1000);
  assert.deepEqual(listed.frames, ['{"cameras":[{"name":"test","kind":"test_picture"}]}']);
});

test("WebSocket /api/robots/{id}/ros/topics/echo lists published topics, and sends each message of a topic as JSON", LIMIT, async (t) => {
  const ros = await RosbridgeServer.start(t, "/rosapi/");
  ros.topics.set("/chatter", { type: "std_msgs/msg/String", typedefs: [] });
  const with_ros = await realRobot(plane, "ros-1", ["--config", robotConfig({ ros: { adapters: ["rosbridge"], rosbridge_url: ros.url } })]);
  const list = await opened(at("ros/topics/echo", `token=${token}`, with_ros.id));
  await plane.until("the list", () => list.frames.length > 0);
  assert.deepEqual(JSON.parse(String(list.frames[0])).topics, [{ name: "/chatter", type: "std_msgs/msg/String", adapter: "rosbridge" }]);
  const stream = await opened(at("ros/topics/echo", `token=${token}&topic=/chatter`, with_ros.id));
  await plane.until("the subscription", () => ros.subscriptions.size > 0);
  ros.publish("/chatter", { data: "hello" });
  await plane.until("the message", () => stream.frames.length > 0);
  const { at: when, ...echoed } = JSON.parse(String(stream.frames[0])) as Record<string, unknown>;
  assert.deepEqual(echoed, { topic: "/chatter", type: "std_msgs/msg/String", message: { data: "hello" } });
  assert.ok(Math.abs(Date.parse(String(when)) - Date.now()) < LIMIT.timeout);
  const health = await plane.until("ROS in the health snapshot", async () => {
    const { status, body } = await http.get(`/api/robots/${with_ros.id}/health`);
    if (status !== 200) return undefined;
    // The first snapshot may precede the detection of ROS, or its first response.
    const { ros } = (body as { data: { ros: { adapter: string; topics: string[] } | null } }).data;
    return ros !== null && ros.topics.length > 0 && ros;
  });
  assert.deepEqual([health.adapter, health.topics], ["rosbridge", ["/chatter"]]);
  for (const { ws } of [list, stream]) ws.close();
});

test("every stream accepts a token in its URL, and returns 401 without a valid one", LIMIT, async () => {
  for (const path of PATHS) {
    for (const query of ["", "token=", `token=rf_org_${"0".repeat(64)}`]) {
      const { status, body } = await refused(at(path, query));
      assert.deepEqual([path, query, status, body.error.code], [path, query, 401, "unauthorized"]);
    }
    const stream = await opened(at(path, `token=${token}`));
    assert.equal(stream.headers["x-service-org-id"], plane.default_org.id);
    stream.ws.close();
  }
});

test("every stream accepts a token in the header Authorization", LIMIT, async () => {
  const stream = await opened(at("logs/ws", ""), { authorization: `bearer ${token}` });
  assert.equal(stream.headers["x-service-org-id"], plane.default_org.id);
  stream.ws.close();
});

test("every stream returns 404 for another org's robot, and 403 for an org of other users", LIMIT, async () => {
  const other = await plane.org();
  for (const path of PATHS) {
    const foreign = await refused(at(path, `token=${other.admin_token}`));
    assert.deepEqual([foreign.status, foreign.body.error.code, foreign.headers["x-service-org-id"]], [404, "not_found", other.id]);
    assert.equal((await refused(at(path, `token=${token}`, "rob_none"))).status, 404);
    const outside = await refused(at(path, `token=${token}&org_id=${other.id}`));
    assert.deepEqual([outside.status, outside.body.error.code], [403, "forbidden"]);
  }
});

test("a viewer may follow logs, but gets 403 for shell, camera and topics", LIMIT, async () => {
  const viewer = await plane.token({ role: "viewer" });
  (await opened(at("logs/ws", `token=${viewer}`))).ws.close();
  for (const path of PATHS.slice(1)) assert.equal((await refused(at(path, `token=${viewer}`))).status, 403, path);
  const operator = await plane.token({ role: "operator" });
  for (const path of PATHS) (await opened(at(path, `token=${operator}`))).ws.close();
});

test("a stream requested without a WebSocket upgrade returns 426, or 401 without a token", LIMIT, async () => {
  for (const path of PATHS) {
    // Use a plain fetch, because streams are not in the OpenAPI document.
    const url = `${plane.url}/api/robots/${robot.id}/${path}`;
    const without = await fetch(url);
    assert.deepEqual([without.status, ((await without.json()) as { error: { code: string } }).error.code], [401, "unauthorized"]);
    const plain = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    assert.deepEqual(
      [plain.status, plain.headers.get("upgrade"), plain.headers.get("x-service-org-id")],
      [426, "websocket", plane.default_org.id],
    );
    assert.equal(((await plain.json()) as { error: { code: string } }).error.code, "http_error");
  }
});

test("no token of a stream's URL is in the server's log", LIMIT, async () => {
  const secret = await plane.token({ role: "viewer" });
  (await opened(at("logs/ws", `token=${secret}`))).ws.close();
  await refused(at("shell/ws", `token=${secret}`));
  assert.ok(!JSON.stringify(plane.logged).includes(secret.slice("rf_org_".length)));
});

test("a token that expires ends its open streams with 4401", LIMIT, async () => {
  // If the token expired before the stream was open, try again with a token that is valid longer.
  for (let lives_ms = 1_500; ; lives_ms *= 2) {
    const secret = await plane.token({ role: "viewer", expires_at: new Date(Date.now() + lives_ms) });
    const stream = await openSocket(at("logs/ws", `token=${secret}`));
    if ("closed" in stream) return assert.equal((await stream.closed).code, 4401);
    assert.ok(stream.status === 401 && lives_ms < LIMIT.timeout / 4, JSON.stringify(stream.body));
  }
});

test("a WebSocket upgrade of a path without a stream returns 404", LIMIT, async () => {
  assert.equal((await refused(`${plane.url}/api/robots?token=${token}`)).status, 404);
  assert.equal((await refused(`${plane.url}/nothing/ws`)).status, 404);
});
