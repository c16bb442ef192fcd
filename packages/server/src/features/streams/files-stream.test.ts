import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { type Channel, controlMessage, dataMessage, readMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { WebSocket } from "ws";
import { row, sql, text } from "../../kernel/sql.ts";
import { startRig } from "./testing/rig.ts";

test("records each file transfer in the timeline, even if requests are sent before earlier responses", { timeout: 120_000 }, async () => {
  await using it = await startRig();
  const asked: unknown[] = [];
  let robot: Channel | undefined;
  const { server } = channelPair({
    files: (channel) => {
      robot = channel;
      void (async () => {
        for await (const message of channel) asked.push(readMessage(message).control?.["type"]);
      })();
    },
  });
  it.sessions.set(it.robot_id, { ...it.session, openChannel: server.open.bind(server) });
  const ws = new WebSocket(`${it.origin}/api/robots/${it.robot_id}/files/ws?token=${it.token}`);
  ws.on("error", () => {});
  let heard = 0;
  ws.on("message", () => (heard += 1));
  try {
    await once(ws, "open");
    ws.send(JSON.stringify({ type: "read", path: "/a", offset: 0 }));
    ws.send(JSON.stringify({ type: "write", path: "/b", size: 0, mode: 0o600 }));
    ws.send(JSON.stringify({ type: "read", path: "/c", offset: 0 }));
    await until("the robot has all three requests", () => asked.length === 3);
    const say = async (control: Record<string, unknown>): Promise<unknown> => robot?.write(controlMessage(control));
    const done = (path: string) => say({ type: "done", path, bytes: 1, moved: 1, sha256: "" });
    await say({ type: "reading", path: "/a", size: 1, offset: 0 });
    await robot?.write(dataMessage(Buffer.from("x")));
    await done("/a");
    await say({ type: "writing", path: "/b", offset: 0 });
    await done("/b");
    await say({ type: "reading", path: "/c", size: 1, offset: 0 });
    await done("/c");
    await until("all answers", () => heard === 7);
    const entry = row({ kind: text, path: text });
    const entries = await it.plane.db.many(
      sql(entry)`select kind, data->>'path' as path from timeline_entry where kind like 'file.%' order by id`,
    );
    assert.deepEqual(
      entries.map(({ kind, path }) => `${kind} ${path}`),
      ["file.read /a", "file.written /b", "file.read /c"],
    );
  } finally {
    ws.terminate();
  }
});
