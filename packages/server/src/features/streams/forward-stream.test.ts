import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { controlMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { WebSocket } from "ws";
import { row, sql, text } from "../../kernel/sql.ts";
import { startRig } from "./testing/rig.ts";

test("a robot that reports a tunnel as open many times gets one timeline entry for it", { timeout: 120_000 }, async () => {
  await using it = await startRig();
  const { server } = channelPair({
    forward: async (channel) => {
      for (let n = 0; n < 50; n += 1) await channel.write(controlMessage({ type: "open" }));
      channel.close();
    },
  });
  it.sessions.set(it.robot_id, { ...it.session, openChannel: server.open.bind(server) });
  const ws = new WebSocket(`${it.origin}/api/robots/${it.robot_id}/forward/ws?token=${it.token}&port=80`);
  ws.on("error", () => {});
  await once(ws, "close");
  const kinds = async (): Promise<string[]> =>
    (await it.plane.db.many(sql(row({ kind: text }))`select kind from timeline_entry where kind like 'tunnel.%' order by id`)).map(
      ({ kind }) => kind,
    );
  await until("the end to be recorded", async () => (await kinds()).includes("tunnel.closed"));
  assert.deepEqual(await kinds(), ["tunnel.opened", "tunnel.closed"]);
});
