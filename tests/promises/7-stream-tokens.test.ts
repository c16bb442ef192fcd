import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fillPath, streamPaths } from "@robofleet/protocol/paths";
import { createClient } from "@robofleet/sdk";
import { WebSocket } from "ws";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { RfHome } from "../processes/rf.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 240_000 };
/** A token of nobody, and one in a form that no token has: they are in the URL all the same. */
const UNKNOWN = `rf_user_${"5ec2e7".repeat(10)}5ec2`;
const STREAMS = Object.values(streamPaths);

type Outcome = { open: boolean; status: number };

/** Opens a WebSocket, waits until it is open or refused, and closes it. */
async function attempt(url: string, ca: string | undefined, headers: Record<string, string> = {}): Promise<Outcome> {
  const socket = new WebSocket(url, { ...(ca === undefined ? {} : { ca }), headers });
  const outcome = await new Promise<Outcome>((resolve, reject) => {
    socket.on("open", () => resolve({ open: true, status: 101 }));
    socket.on("unexpected-response", (_request, response) => {
      response.resume();
      resolve({ open: false, status: response.statusCode ?? 0 });
    });
    socket.on("error", reject);
  });
  const closed = outcome.open ? once(socket, "close") : undefined;
  socket.terminate();
  await closed;
  return outcome;
}

/** Every file below a directory that holds one of the words. */
function filesWith(directory: string, words: readonly string[]): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => {
      const bytes = statSync(file, { throwIfNoEntry: false }) === undefined ? Buffer.alloc(0) : readFileSync(file);
      return words.some((word) => bytes.includes(word));
    });
}

test("tokens in the URLs of streams are in no log, no file and no metric of the server; a cookie alone opens nothing", LIMIT, async (t) => {
  const rounds = promiseSize({ test: 2, full: 100 });
  await using server = await ServerProcess.start({ args: ["--tls", "auto", "--log-level", "trace"] });
  const { api, token } = await server.org("Acme");
  const site_id = (await api.createSite({ body: { name: "Hall" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using robot = new AgentProcess({ url: server.address, key: key ?? "", name: "cart", args: ["--trust-on-first-use"] });
  const { id } = await robot.program.until("the robot", async () =>
    (await api.listRobots()).items.find(({ status }) => status === "online"),
  );

  const base = server.address.replace("https", "wss");
  const pathOf = (stream: string, robot_id: string): string => base + fillPath(stream, { id: robot_id });
  const ca = server.ca;
  let opened = 0;
  let refused = 0;
  const tell = ({ open }: Outcome): void => void (open ? (opened += 1) : (refused += 1));
  for (let round = 0; round < rounds; round += 1) {
    for (const secret of [token, UNKNOWN]) {
      for (const stream of STREAMS) {
        tell(await attempt(`${pathOf(stream, id)}?token=${secret}`, ca));
        tell(await attempt(`${pathOf(stream, "rob_none")}?token=${secret}&unknown=1`, ca));
      }
      tell(await attempt(`${base}/api/robots/${id}/nothing?token=${secret}`, ca));
      // Not upgraded, not decodable, too long, and where no token belongs.
      const client = createClient({ base_url: server.address, ca, retries: 0 });
      const long = `/api/robots/${id}/logs?x=${"x".repeat(9_000)}&token=${secret}`;
      for (const target of [
        `/api/robots/${id}/logs?token=${secret}`,
        `/api/robots/%ff?token=${secret}`,
        long,
        `/agent/ws?token=${secret}`,
      ]) {
        const { status } = await client.request("GET", target);
        assert.ok(status >= 400 && status < 500, `${status}`);
        refused += 1;
      }
      if (secret === UNKNOWN) break;
    }
  }
  assert.ok(opened >= rounds, `${opened} streams were open`);
  // A page of another site has the user's cookie and not the token.
  for (const stream of STREAMS) {
    const headers = { origin: "https://evil.example", cookie: `session=${token}; robofleet_session=${token}; token=${token}` };
    assert.deepEqual(await attempt(pathOf(stream, id), ca, headers), { open: false, status: 401 }, stream);
  }

  // The cookie of a session opens them for pages of the server's own, and for no other.
  const signed_in = await createClient({ base_url: server.address, ca, token }).request("POST", "/api/auth/session");
  assert.equal(signed_in.status, 201);
  const cookie = signed_in.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const session = cookie.split("=")[1] ?? "";
  assert.match(cookie, /^__Host-robofleet_session=rf_session_/);
  for (const stream of STREAMS) {
    const url = pathOf(stream, id);
    assert.deepEqual(await attempt(url, ca, { cookie, origin: "https://evil.example" }), { open: false, status: 403 }, stream);
    assert.deepEqual(await attempt(url, ca, { cookie }), { open: false, status: 403 }, stream);
    assert.deepEqual(await attempt(url, ca, { cookie, origin: new URL(server.address).origin }), { open: true, status: 101 }, stream);
    tell(await attempt(`${url}?token=${session}`, ca));
  }

  await using home = await RfHome.make();
  const env = { ROBOFLEET_TOKEN: UNKNOWN, ROBOFLEET_BASE_URL: server.address, ROBOFLEET_DEBUG: "1" };
  const followed = await home.run(["robots", "logs", id, "--follow"], { env });
  assert.notEqual(followed.code, 0);
  assert.ok(!(followed.stdout + followed.stderr).includes(UNKNOWN), "rf shows no token");

  const metrics = await (await createClient({ base_url: server.address, ca }).request("GET", "/metrics")).text();
  await robot.program.stop();
  await server.program.stop();
  const words = [token, UNKNOWN, session];
  for (const word of words) {
    assert.ok(!server.program.output.includes(word), "the server's log");
    assert.ok(!robot.program.output.includes(word), "the robot's log");
    assert.ok(!metrics.includes(word), "the metrics");
  }
  assert.deepEqual(filesWith(server.data, words), []);
  assert.ok(server.program.output.split("\n").length > 3, "the server logged");
  provePromise(
    t,
    7,
    `${opened} streams opened and ${refused} requests refused with a token in the URL, log level trace: 0 hits in logs, database files, data ` +
      `directory and metrics; ${STREAMS.length * 3} streams by a cookie from another site's page or from none: refused`,
  );
});
