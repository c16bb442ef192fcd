import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client } from "@robofleet/sdk";
import { ADMIN_TOKEN, type HarnessOrg, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { sessionHeaders } from "../authorization/ask-route.ts";
import { type Opened, opened } from "../spec/web-socket.ts";

const TIMEOUT = { timeout: 300_000 };
const BOUND_MS = 2_000;
/** Twice as many and one more are open: a robot has at most 100 followers. */
const STREAMS = promiseSize({ test: 5, full: 45 });

/** What a token loses, and with which codes its streams may close; none: they go on, and it is only to change nothing any more. */
interface Case {
  name: string;
  codes: readonly number[];
  take: (api: Client, ids: { user_id: string; token_id: string; site_id: string; org: HarnessOrg; admin: Client }) => Promise<unknown>;
}

// Of a suspended org the robot's link ends too, which its viewers may hear of first: 4409.
const CASES: readonly Case[] = [
  { name: "revoked", codes: [4401], take: (api, { token_id }) => api.revokeToken({ params: { id: token_id } }) },
  { name: "rotated", codes: [4401], take: (api, { token_id }) => api.rotateToken({ params: { id: token_id } }) },
  {
    name: "its user's role lowered",
    codes: [],
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

test(
  "whatever a token loses, its open streams close and its requests are refused within 2 s, those of its sessions too",
  TIMEOUT,
  async (t) => {
    // Real sockets and real time: the bound is one of the promise itself.
    await using plane = await startPlane();
    const took: number[] = [];
    for (const [i, { name, codes, take }] of CASES.entries()) {
      const org = await plane.org(`Org of case ${i}`);
      const robot = await org.enrollRobot();
      const user = (await org.api.createUser({ body: { email: `ada${i}@example.org`, name: "Ada", role: "operator" } })).data;
      const site_id = await org.site();
      const made = (await org.api.createToken({ body: { label: name, role: "operator", user_id: user.id } })).data;
      const token = made.token ?? "";
      const path = `/api/robots/${robot.id}/logs/ws`;
      const streams: Opened[] = [];
      for (let n = 0; n < STREAMS; n += 1) streams.push(await opened(`${plane.url}${path}?token=${token}`));
      const { cookie = "", origin = "" } = (await sessionHeaders(plane, token)) ?? {};
      for (let n = 0; n < STREAMS; n += 1) streams.push(await opened(`${plane.url}${path}`, { cookie, origin }));
      const kept = await opened(`${plane.url}${path}?token=${org.admin_token}`);
      await take(org.api, { user_id: user.id, token_id: made.id, site_id, org, admin: org.client(ADMIN_TOKEN) });
      const since = performance.now();
      if (codes.length === 0) {
        await plane.until(
          "the lower role",
          async () => (await org.client(token).request("POST", "/api/sites", { body: "{}" })).status === 403,
        );
        took.push(performance.now() - since);
        assert.ok(
          streams.every(({ ws }) => ws.readyState === ws.OPEN),
          "a viewer may read logs",
        );
      } else {
        const ends = await Promise.all(streams.map(async ({ closed }) => ({ ...(await closed), after_ms: performance.now() - since })));
        for (const end of ends) {
          assert.ok(codes.includes(end.code), `${name}: ${end.code} ${end.reason}`);
          took.push(end.after_ms);
        }
        await plane.until("the refusal", async () => {
          const by_token = await org.client(token).request("GET", `/api/robots/${robot.id}`);
          const by_cookie = await org.client().request("GET", `/api/robots/${robot.id}`, { headers: { cookie } });
          return [by_token, by_cookie].every(({ status }) => [401, 403, 404].includes(status));
        });
        took.push(performance.now() - since);
      }
      if (name !== "its org suspended") assert.equal(kept.ws.readyState, kept.ws.OPEN, `${name}: another token's stream goes on`);
      for (const { ws } of [...streams, kept]) ws.terminate();
    }
    const slowest = Math.max(...took);
    assert.ok(slowest <= BOUND_MS, `the slowest took ${Math.round(slowest)} ms`);
    provePromise(
      t,
      4,
      `${took.length} endings of ${CASES.length} kinds on one node, half of the streams by the cookie of a session, the slowest ${Math.round(slowest)} ms after the change was answered`,
    );
  },
);
