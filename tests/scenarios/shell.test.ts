import assert from "node:assert/strict";
import { once } from "node:events";
import os from "node:os";
import { test } from "node:test";
import { WebSocket } from "ws";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const TIMEOUT = { timeout: 120_000 };
const SUBPROTOCOL = "robofleet.shell.v1";
const MIB = 1024 * 1024;

const withShell = { robot: { shell: { user: os.userInfo().username, command: ["bash", "--norc", "-i"] } } };

/** The end of a viewer, as any WebSocket client has it. */
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
    this.closed = once(this.ws, "close").then(([code, reason]) => `${code} ${String(reason)}`);
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
  await Promise.race([once(view.ws, "open"), view.closed]);
  return view;
}

const sessionsOf = async (plane: Harness, robot_id: string) => (await plane.api.listShellSessions({ params: { id: robot_id } })).items;

test("WebSocket /api/robots/{id}/shell/ws: a client without a subprotocol has plain PTY bytes, and its exit is the close", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  const view = await openShell(plane, robot.id, { cols: "111", rows: "37" });
  assert.equal(view.ws.protocol, "");
  view.ws.send("stty size; printf 'gr\\303\\274\\303\\237e \\377\\376\\n'; echo $((6*7))\r");
  await plane.until("the answers", () => view.text.includes("37 111") && /\n42\r/.test(view.text));
  assert.ok(view.bytes.includes(Buffer.from("grüße \xff\xfe", "latin1").subarray(0)) || view.bytes.includes(Buffer.concat([Buffer.from("grüße "), Buffer.from([0xff, 0xfe])])));
  view.ws.send(Buffer.from("exit 7\r"));
  assert.equal(await view.closed, "1000 exit 7");
  assert.deepEqual(view.controls, []);
});

test("with the subprotocol the size follows, and the exit code and signal are told", TIMEOUT, async () => {
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
