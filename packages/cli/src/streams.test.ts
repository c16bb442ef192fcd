import assert from "node:assert/strict";
import { test } from "node:test";
import type { WebSocket } from "ws";
import { RfHome, type RfResult } from "./testing/run-rf.ts";
import { type Script, ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const record = (seq: number, message: string): object => ({
  robot_id: "rob_1",
  seq,
  at: "2030-01-01T00:00:00.000Z",
  received_at: "2030-01-01T00:00:00.000Z",
  level: "warn",
  source: "nav",
  message,
  fields: seq === 1 ? { x: 1 } : {},
});

async function follow(
  accept: (socket: WebSocket) => void,
  extra: string[] = [],
  stop_at?: string,
): Promise<RfResult & { lines: string[] }> {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(() => undefined, accept);
  const result = await home.run(["robots", "logs", "rob_1", "--follow", ...extra], {
    env: service.env,
    on_output: (child, text) => {
      if (stop_at !== undefined && text.includes(stop_at)) child.kill("SIGINT");
    },
  });
  return { ...result, lines: service.lines };
}

test("rf robots logs --follow prints one line per record and escapes control characters", TIMEOUT, async () => {
  const { code, stdout, lines } = await follow((socket) => {
    socket.send(JSON.stringify(record(1, "two\nlines \u001b[2J\u202e")));
    socket.send(JSON.stringify(record(2, "next")));
    socket.close(1000);
  });
  assert.deepEqual(stdout.split("\n"), [
    '2030-01-01T00:00:00.000Z  warn   nav  two\\nlines \\x1b[2J\\u{202e}  {"x":1}',
    "2030-01-01T00:00:00.000Z  warn   nav  next",
    "",
  ]);
  assert.equal(code, 0);
  assert.deepEqual(lines, ["UPGRADE /api/robots/rob_1/logs/ws?cursor="]);
});

test("rf robots logs --follow prints the stored records of an offline robot and exits 7", TIMEOUT, async () => {
  const offline = (socket: WebSocket): void => {
    socket.send(JSON.stringify(record(1, "stored")));
    socket.close(4409, "agent offline");
  };
  const people = await follow(offline);
  assert.equal(people.code, 7);
  assert.match(people.stdout, /stored/);
  assert.equal(people.stderr.split("\n")[0], "agent offline");
  const program = await follow(offline, ["--json"]);
  assert.deepEqual([program.code, JSON.parse(program.stdout)], [7, record(1, "stored")]);
});

const endings: [number, number, RegExp][] = [
  [4401, 4, /revoked or has expired/],
  [4403, 4, /no longer allows/],
  [4404, 5, /removed/],
  [4410, 1, /robot ended the stream: not supported by this agent/],
  [4429, 1, /too many open streams/],
  [1013, 1, /restarting/],
  [1011, 1, /server ended the stream \(1011/],
];
for (const [close_code, exit_code, message] of endings) {
  test(`rf robots logs --follow exits ${exit_code} when the stream closes with ${close_code}`, TIMEOUT, async () => {
    const { code, stderr } = await follow((socket) => socket.close(close_code, close_code === 4410 ? "not supported by this agent" : ""));
    assert.match(stderr, message);
    assert.equal(code, exit_code);
  });
}

test("rf robots logs --follow exits 1 if the connection is lost before the first record", TIMEOUT, async () => {
  const { code, stderr, lines } = await follow((socket) => socket.terminate());
  assert.deepEqual([code, lines.length], [1, 1]);
  assert.match(stderr, /lost/);
});

test("rf robots logs --follow exits 130 on Ctrl-C", TIMEOUT, async () => {
  const { code } = await follow((socket) => socket.send(JSON.stringify(record(1, "one"))), [], "one");
  assert.equal(code, 130);
});

interface Plan {
  /** Statuses of the deployment's events that each poll sees. */
  polls: string[][];
  reason?: string;
}

const deployment = (status: string, reason: string | null): object => ({
  id: "dep_1",
  release: { id: "rel_1", tag: "1.0", kind: "file", app: "main" },
  target_kind: "fleet",
  robot_id: null,
  fleet_id: "fleet_1",
  status,
  reason,
  counts: {
    total: 2,
    pending: 0,
    queued: 0,
    active: 0,
    applied: status === "applied" ? 2 : 0,
    failed: 0,
    rolled_back: status === "rolled_back" ? 2 : 0,
    cancelled: 0,
  },
  scheduled_at: null,
});

function watchScript({ polls, reason }: Plan): Script {
  let polled = 0;
  return ({ line }) => {
    const seen = polls[Math.min(Math.max(polled, 1), polls.length) - 1]!;
    const status = seen.at(-1)!;
    if (line === "GET /api/deployments/dep_1/events") {
      const events = polls[Math.min(polled, polls.length - 1)]!;
      polled += 1;
      return {
        body: {
          items: events.map((one, seq) => ({
            seq,
            at: "2030-01-01T00:00:00.000Z",
            status: one,
            reason: reason ?? null,
            message: `now ${one}`,
          })),
          next_cursor: null,
        },
      };
    }
    if (line.includes("/targets"))
      return {
        body: { items: [{ robot_id: "rob_1", status, reason: reason ?? null, waiting_for: null, progress: null }], next_cursor: null },
      };
    return { body: { data: deployment(status, reason ?? null) } };
  };
}

test("rf deploy --watch polls events until the deployment is applied and exits 0", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(
    watchScript({ polls: [["queued"], ["queued", "in_progress"], ["queued", "in_progress", "applied"]] }),
  );
  const { code, stdout, stderr } = await home.run(["deploy", "1.0", "--fleet", "fleet_1", "--watch"], { env: service.env });
  assert.equal(code, 0, stderr);
  assert.equal(service.lines.filter((line) => line === "GET /api/deployments/dep_1/events").length, 3);
  assert.match(stdout, /now queued[^]*now in_progress[^]*now applied[^]*applied: 1\.0 runs on 2 of 2 robots/);
});

test("rf deploy --watch exits 8 with the reason if the deployment is rolled back", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const plan = { polls: [["queued", "in_progress", "rolled_back"]], reason: "health_check_failed" };
  await using service = await ScriptedPeer.start(watchScript(plan));
  const people = await home.run(["deployments", "watch", "dep_1"], { env: service.env });
  assert.equal(people.code, 8);
  assert.match(
    people.stderr,
    /error: deployment dep_1 ended rolled_back: health_check_failed\n {2}rob_1: rolled_back, health_check_failed/,
  );
  const program = await home.run(["deploy", "1.0", "--fleet", "fleet_1", "--watch", "--json"], { env: service.env });
  assert.deepEqual([program.code, JSON.parse(program.stdout)], [8, { data: deployment("rolled_back", "health_check_failed") }]);
});

test("rf deploy --watch exits 130 on Ctrl-C and states that the deployment continues", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(watchScript({ polls: [["in_progress"]] }));
  const { code, stderr } = await home.run(["deploy", "1.0", "--fleet", "fleet_1", "--watch"], {
    env: service.env,
    on_output: (child, text) => {
      if (text.includes("now in_progress")) child.kill("SIGINT");
    },
  });
  assert.equal(code, 130);
  assert.match(stderr, /the deployment continues. Follow it: rf deployments watch dep_1/);
});

test("rf deployments watch waits for a restarting server", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const script = watchScript({ polls: [["in_progress"], ["in_progress", "applied"]] });
  let polls = 0;
  await using service = await ScriptedPeer.start((asked) => {
    if (asked.line.endsWith("/events")) polls += 1;
    return polls === 2
      ? { status: 503, body: { error: { code: "http_error", message: "starting" } }, headers: { "retry-after": "3600" } }
      : script(asked);
  });
  const { code, stdout } = await home.run(["deployments", "watch", "dep_1"], { env: service.env });
  assert.equal(code, 0);
  assert.match(stdout, /starting; retrying/);
});

test("rf configs deploy --watch waits for a restarting server", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const counts = { total: 1, pending: 0, queued: 0, active: 1, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 };
  const running = { id: "cdep_1", namespace: null, status: "in_progress", reason: null, counts };
  let polls = 0;
  await using service = await ScriptedPeer.start(({ line }) => {
    if (line.startsWith("POST")) return { body: { data: running } };
    polls += 1;
    if (polls === 2)
      return { status: 503, body: { error: { code: "http_error", message: "starting" } }, headers: { "retry-after": "3600" } };
    const ended = { ...running, status: "applied", counts: { ...counts, active: 0, applied: 1 } };
    return { body: { data: polls === 1 ? running : ended } };
  });
  const { code, stdout, stderr } = await home.run(["configs", "deploy", "--fleet", "fleet_1", "--watch"], { env: service.env });
  assert.equal(code, 0, stderr);
  assert.deepEqual(stdout.split("\n"), ["in_progress: 0 of 1 applied, 1 active", "starting; retrying", "applied: 1 of 1 applied", ""]);
});

test("rf robots shell ends the shell's input when stdin cannot be read", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(
    () => undefined,
    (socket) => {
      const late = setTimeout(() => socket.close(1000), 10_000);
      socket.on("message", (data: Buffer) => {
        if ((JSON.parse(data.toString()) as { type: string }).type !== "eof") return;
        clearTimeout(late);
        socket.send(JSON.stringify({ type: "exit", code: 3 }));
        socket.close(1000);
      });
    },
  );
  // Reading a file that is open only for writing fails with EBADF.
  const within = ["sh", "-c", 'exec "$@" 0> /dev/null', "sh"];
  const { code, stderr } = await home.run(["robots", "shell", "rob_1", "--", "cat"], { env: service.env, within });
  assert.equal(code, 3, stderr);
});
