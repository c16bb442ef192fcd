import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { streamAccess } from "@roamfleet/protocol";
import { CHANNELS_MAX } from "@roamfleet/protocol/link";
import type { Client } from "@roamfleet/sdk";
import { sessionHeaders } from "../authorization/ask-route.ts";
import { ADMIN_TOKEN, type Harness, type HarnessOrg, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { OpenStream, type StreamCredentials } from "../harness/open-stream.ts";
import { checkTime, promiseSize, provePromise } from "../harness/promise.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";
import { STREAM_NAMES } from "../harness/stream-target.ts";

const TIMEOUT = { timeout: 600_000 };
const BOUND_MS = 2_000;
/** Number of CASES that are tested with three nodes. */
const CASES_ON_THREE = promiseSize({ test: 1, full: 6 });
/** Number of additional log viewers beside the streams of `openAll`. A robot can have at most 100 streams. */
const FOLLOWERS = promiseSize({ test: 2, full: 80 });

/** A way to lose access, and the close codes with which streams may then end. */
interface Case {
  name: string;
  /** Close codes of streams that need the role operator. Without `viewers`, they apply to all other streams too. */
  codes: readonly number[];
  /** Close codes of streams that need only the role viewer. An empty list means that these streams stay open. */
  viewers?: readonly number[];
  take: (api: Client, ids: { user_id: string; token_id: string; site_id: string; org: HarnessOrg; admin: Client }) => Promise<unknown>;
}

// Suspending an org also closes the link of its robots. A viewer that detects this first closes with 4409.
const CASES: readonly Case[] = [
  { name: "revoked", codes: [4401], take: (api, { token_id }) => api.revokeToken({ params: { id: token_id } }) },
  { name: "rotated", codes: [4401], take: (api, { token_id }) => api.rotateToken({ params: { id: token_id } }) },
  {
    name: "its user's role lowered",
    codes: [4403],
    viewers: [],
    take: (api, { user_id }) => api.updateUser({ params: { id: user_id }, body: { role: "viewer" } }),
  },
  {
    name: "its user limited to another site",
    codes: [4403],
    take: (api, { user_id, site_id }) => api.updateUser({ params: { id: user_id }, body: { scopes: [{ site_id }] } }),
  },
  { name: "its user taken out of the org", codes: [4401], take: (api, { user_id }) => api.deleteUser({ params: { id: user_id } }) },
  { name: "its org suspended", codes: [4403, 4409], take: (_, { org, admin }) => admin.suspendOrg({ params: { id: org.id } }) },
];

/**
 * Opens streams of every kind with a token, the cookie of its session, and a ticket created with either of these. All of the streams work.
 */
async function openAll(
  plane: Harness,
  around: RobotSurroundings,
  robot: LiveRobot,
  org: HarnessOrg,
  token: string,
): Promise<{ streams: OpenStream[]; cookie: string }> {
  const session = (await sessionHeaders(plane, token)) ?? {};
  const { cookie = "", origin = "" } = session;
  const ticket = async (stream: OpenStream["name"], by_session: boolean): Promise<StreamCredentials> => {
    const body = { robot_id: robot.id, stream };
    const { data } = by_session
      ? ((await (
          await org.client().request("POST", "/api/stream-tickets", { body, headers: { ...session, "content-type": "application/json" } })
        ).json()) as Awaited<ReturnType<Client["createStreamTicket"]>>)
      : await org.client(token).createStreamTicket({ body });
    return { query: { ticket: data.ticket ?? "" } };
  };
  const open = (name: OpenStream["name"], credentials: StreamCredentials): Promise<OpenStream> =>
    OpenStream.open(plane.url, name, robot.id, around, credentials);
  const [by_token, by_cookie] = [{ query: { token } }, { headers: { cookie, origin } }];
  const streams: OpenStream[] = [];
  for (const name of STREAM_NAMES)
    for (const credentials of [by_token, by_cookie, await ticket(name, false), await ticket(name, true)])
      streams.push(await open(name, credentials));
  await Promise.all(streams.map((stream) => stream.round()));
  for (let n = 0; n < FOLLOWERS; n += 1) streams.push(await open("logs", n % 2 === 0 ? by_token : by_cookie));
  return { streams, cookie };
}

/** Resolves when a token and the cookie of its session are refused. */
async function refusedNow(plane: Harness, org: HarnessOrg, robot_id: string, token: string, cookie: string): Promise<void> {
  await plane.until("the refusal", async () => {
    const by_token = await org.client(token).request("GET", `/api/robots/${robot_id}`);
    const by_cookie = await org.client().request("GET", `/api/robots/${robot_id}`, { headers: { cookie } });
    return [by_token, by_cookie].every(({ status }) => [401, 403, 404].includes(status));
  });
}

test("a token that loses access has its streams closed and its requests refused within 2 s", TIMEOUT, (t) => taken(t, 1, CASES));

test("streams on three nodes close within 2 s when their token loses access", TIMEOUT, (t) => taken(t, 3, CASES.slice(0, CASES_ON_THREE)));

async function taken(t: TestContext, nodes: number, cases: readonly Case[]): Promise<void> {
  // Uses real sockets, a real agent and real time, because the promise contains a time bound.
  await using plane = await startPlane({ nodes });
  const around = await RobotSurroundings.start(t);
  const took: number[] = [];
  for (const [i, { name, codes, viewers = codes, take }] of cases.entries()) {
    const org = await plane.org(`Org of case ${i}`);
    await using robot = await LiveRobot.start(plane, { org, robot: around.robot });
    const user = (await org.api.createUser({ body: { email: `ada${i}@example.org`, name: "Ada", role: "operator" } })).data;
    const site_id = await org.site();
    const made = (await org.api.createToken({ body: { label: name, role: "operator", user_id: user.id } })).data;
    const token = made.token ?? "";
    const { streams, cookie } = await openAll(plane, around, robot, org, token);
    const kept = await OpenStream.open(plane.url, "logs", robot.id, around, { query: { token: org.admin_token } });

    await take(org.api, { user_id: user.id, token_id: made.id, site_id, org, admin: org.client(ADMIN_TOKEN) });
    const since = performance.now();
    const codesOf = (stream: OpenStream): readonly number[] => (streamAccess[stream.name].access === "viewer" ? viewers : codes);
    const ending = streams.filter((stream) => codesOf(stream).length > 0);
    await Promise.all(
      ending.map(async (stream) => {
        const { code, reason } = await stream.closed;
        took.push(performance.now() - since);
        assert.ok(codesOf(stream).includes(code), `${name}: ${stream.name} ${code} ${reason}`);
      }),
    );
    if (viewers.length > 0) {
      await refusedNow(plane, org, robot.id, token, cookie);
      took.push(performance.now() - since);
    }
    for (const stream of streams) if (!ending.includes(stream)) await stream.round();
    const session = plane.session(robot.id);
    if (session !== undefined) await plane.until("the end of its streams at the robot", () => session.channel_room === CHANNELS_MAX);
    if (name !== "its org suspended") await kept.round();
    for (const { ws } of [...streams, kept]) ws.terminate();
  }
  const slowest = Math.max(...took);
  checkTime(t, "the slowest ending", slowest, BOUND_MS);
  provePromise(
    t,
    4,
    `${took.length} endings of ${cases.length} reasons on ${nodes === 1 ? "one node" : `${nodes} nodes`}, streams of all ${STREAM_NAMES.length} kinds on a real agent, by token, by the cookie of a session and by tickets of both, the slowest ${Math.round(slowest)} ms after the change was answered`,
  );
}
