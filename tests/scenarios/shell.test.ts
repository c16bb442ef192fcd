import assert from "node:assert/strict";
import { once } from "node:events";
import os from "node:os";
import { test } from "node:test";
import { WebSocket } from "ws";
import { ROBOT_CONFIG_DEFAULT } from "../../packages/agent/src/config-file/robot-config.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const TIMEOUT = { timeout: 300_000 };
const SUBPROTOCOL = "roamfleet.shell.v1";
const MIB = 1024 * 1024;

const withShell = { robot: { shell: { user: os.userInfo().username, command: ["bash", "--norc", "-i"] } } };

/** A viewer that is a plain WebSocket client. */
class View {
  readonly ws: WebSocket;
  readonly closed: Promise<string>;
  readonly controls: Record<string, unknown>[] = [];
  readonly #parts: Buffer[] = [];

  constructor(plane: Harness, path: string, query: Record<string, string>, protocols: string[]) {
    const url = new URL(path, plane.url.replace(/^http/, "ws"));
    for (const [name, value] of Object.entries({ token: plane.default_org.admin_token, ...query })) url.searchParams.set(name, value);
    this.ws = new WebSocket(url, protocols);
    this.ws.on("error", () => {});
    this.ws.on("message", (data: Buffer, binary) => {
      if (binary) this.#parts.push(data);
      else this.controls.push(JSON.parse(data.toString("utf8")) as Record<string, unknown>);
    });
    this.closed = new Promise((resolve) => this.ws.once("close", (code, reason) => resolve(`${code} ${reason.toString("utf8")}`)));
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  get text(): string {
    return this.bytes.toString("utf8");
  }
}

async function openShell(plane: Harness, robot_id: string, query: Record<string, string> = {}, protocols: string[] = []): Promise<View> {
  const view = new View(plane, `/api/robots/${robot_id}/shell/ws`, query, protocols);
  await Promise.race([once(view.ws, "open").catch(() => {}), view.closed]);
  return view;
}

const sessionsOf = async (plane: Harness, robot_id: string) => (await plane.api.listShellSessions({ params: { id: robot_id } })).items;

test("a shell client without a WebSocket subprotocol gets plain terminal bytes until the shell exits", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  const view = await openShell(plane, robot.id, { cols: "111", rows: "37" });
  assert.equal(view.ws.protocol, "");
  view.ws.send("stty size; printf 'gr\\303\\274\\303\\237e \\377\\376\\n'; echo $((6*7))\r");
  await plane.until("the answers", () => view.text.includes("37 111") && /\n42\r/.test(view.text));
  assert.ok(
    view.bytes.includes(Buffer.from("grüße \xff\xfe", "latin1").subarray(0)) ||
      view.bytes.includes(Buffer.concat([Buffer.from("grüße "), Buffer.from([0xff, 0xfe])])),
  );
  view.ws.send(Buffer.from("exit 7\r"));
  assert.equal(await view.closed, "1000 exit 7");
  assert.deepEqual(view.controls, []);
});

test("a shell client with the subprotocol can resize the terminal and receives exit code and signal", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  const view = await openShell(plane, robot.id, {}, [SUBPROTOCOL]);
  assert.equal(view.ws.protocol, SUBPROTOCOL);
  view.ws.send(JSON.stringify({ type: "resize", cols: 99, rows: 33 }));
  view.ws.send(Buffer.from("stty size\r"));
  await plane.until("the new size", () => view.text.includes("33 99"));
  view.ws.send(Buffer.from("kill -TERM $$; kill -KILL $$\r"));
  assert.equal(await view.closed, "1000 exit 137");
  assert.deepEqual(view.controls, [{ type: "exit", code: 137, signal: "SIGKILL" }]);
  const odd = await openShell(plane, robot.id, {}, [SUBPROTOCOL]);
  odd.ws.send(JSON.stringify({ type: "resize", cols: -1, rows: 33 }));
  assert.match(await odd.closed, /^1008 /);
});

test("a shell's output is recorded with its timing, but typed input without echo is not", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  const view = await openShell(plane, robot.id, { cols: "90", rows: "30" }, [SUBPROTOCOL]);
  view.ws.send(Buffer.from("printf 'se%s\\n' cret-free; read -rs password; echo \"${#password} long\"\r"));
  await plane.until("the question", () => view.text.includes("secret-free"));
  view.ws.send(Buffer.from("hunter2\r"));
  await plane.until("the answer", () => view.text.includes("7 long"));
  view.ws.send(JSON.stringify({ type: "resize", cols: 100, rows: 40 }));
  view.ws.send(Buffer.from("exit 4\r"));
  assert.equal(await view.closed, "1000 exit 4");
  const session = await plane.until("its end", async () => (await sessionsOf(plane, robot.id)).find(({ status }) => status === "ended"));
  assert.deepEqual(
    [session.exit_code, session.reason, session.app, session.program, session.terminal, session.recording.status],
    [4, "exit", null, null, true, "kept"],
  );
  assert.equal(session.output_bytes, view.bytes.length);
  const answer = await plane.api.request("GET", `/api/shell-sessions/${session.id}/recording`);
  assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "application/x-asciicast"]);
  const [header, ...events] = (await answer.text())
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
  assert.deepEqual(
    { ...(header as object), timestamp: 0 },
    { version: 2, width: 90, height: 30, timestamp: 0, env: { TERM: "xterm-256color" } },
  );
  const lines = events as [number, string, string][];
  assert.equal(lines.flatMap(([, kind, text]) => (kind === "o" ? [text] : [])).join(""), view.text);
  assert.ok(lines.every(([seconds], i) => seconds >= (lines[i - 1]?.[0] ?? 0)));
  assert.deepEqual(
    lines.filter(([, kind]) => kind !== "o").map(([, kind, text]) => [kind, text]),
    [
      ["r", "100x40"],
      ["m", "exit 4"],
    ],
  );
  assert.ok(!JSON.stringify(lines).includes("hunter2"));
  const operator = await plane.token({ role: "operator" });
  const refused = await fetch(`${plane.url}/api/shell-sessions/${session.id}/recording`, {
    headers: { authorization: `Bearer ${operator}` },
  });
  assert.equal(refused.status, 403);
  const audit = (await plane.api.listAudit({ query: { action: "getShellRecording" } })).items;
  assert.deepEqual(
    audit.map(({ object_id, status }) => [object_id, status]),
    [[session.id, 200]],
  );
});

test("records the start and end of a shell in timeline and audit log, and refuses viewers", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  const view = await openShell(plane, robot.id, { command: "sleep 60", terminal: "no" });
  const timeline = async (): Promise<[string, unknown][]> =>
    (await plane.api.listRobotTimeline({ params: { id: robot.id } })).items
      .filter(({ kind }) => kind.startsWith("shell."))
      .map(({ kind, data }) => [kind, data["reason"]]);
  await plane.until("the entry", async () => (await timeline()).length === 1);
  assert.deepEqual(await timeline(), [["shell.opened", undefined]]);
  assert.equal((await sessionsOf(plane, robot.id))[0]?.program, "sh");
  view.ws.close();
  await plane.until("its end", async () => (await timeline()).length === 2);
  assert.deepEqual(await timeline(), [
    ["shell.closed", "viewer_left"],
    ["shell.opened", undefined],
  ]);
  const viewer = await plane.token({ role: "viewer" });
  const view_only = await openShell(plane, robot.id, { token: viewer });
  assert.match(await view_only.closed, /^1006/);
  assert.equal((await sessionsOf(plane, robot.id)).length, 1);
  for (const query of [
    { cols: "0" },
    { rows: "x" },
    { command: "[]" },
    { command: "[1]" },
    { app: "../x" },
    { terminal: "maybe" },
  ] as Record<string, string>[])
    assert.match(await (await openShell(plane, robot.id, query)).closed, /^1006/);
  assert.equal((await sessionsOf(plane, robot.id)).length, 1);
});

test("shell output for a viewer that stops reading is not buffered in the server, and arrives completely", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  const view = await openShell(plane, robot.id, { command: `head -c ${50 * MIB} /dev/zero`, terminal: "no" });
  view.ws.pause();
  let last = 0;
  const stuck = await plane.until("that nothing more comes", async () => {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const [session] = await sessionsOf(plane, robot.id);
    const still = session !== undefined && last > 0 && session.output_bytes === last && session;
    last = session?.output_bytes ?? 0;
    return still;
  });
  assert.equal(stuck.status, "open");
  // The kernel's sockets on the path, and the windows.
  assert.ok(stuck.output_bytes < 16 * MIB, `${stuck.output_bytes} bytes were taken for a viewer that does not read`);
  let bytes = 0;
  view.ws.removeAllListeners("message");
  view.ws.on("message", (data: Buffer) => {
    bytes += data.length;
  });
  view.ws.resume();
  assert.equal(await view.closed, "1000 exit 0");
  assert.equal(bytes, 50 * MIB);
  const ended = await plane.until("its end", async () => (await sessionsOf(plane, robot.id)).find(({ status }) => status === "ended"));
  assert.equal(ended.output_bytes, 50 * MIB);
});

test("a robot with shells disabled or without a user for them reports the reason", TIMEOUT, async () => {
  await using plane = await startPlane();
  const { streams } = ROBOT_CONFIG_DEFAULT;
  await using robot = await LiveRobot.start(plane, { robot: { streams: { ...streams, shell: false } } });
  assert.equal(await (await openShell(plane, robot.id)).closed, "4410 disabled on the robot");
  const [session] = await plane.until("its end", async () => {
    const all = await sessionsOf(plane, robot.id);
    return all[0]?.status === "ended" && all;
  });
  assert.equal(session?.exit_code, null);
  await robot.stop();
});
