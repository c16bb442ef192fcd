import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import type { TLSSocket } from "node:tls";
import { until } from "@roamfleet/clock/testing";
import { sql } from "../../../kernel/sql.ts";
import type { Nodes } from "../../../link/index.ts";
import { ingestLogs } from "../../logs/index.ts";
import { flush, range, startRig } from "../testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };
type Take = Parameters<Nodes["onUpgrade"]>[0];

/**
 * Starts a plane that relays to itself, as if its robot were connected to another node. Acting as that node, it ignores the query parameter
 * `ignored`.
 */
async function startRelayed(ignored: string | undefined) {
  let take: Take = () => {};
  const server = createServer();
  server.on("upgrade", (request, socket, head) => {
    const url = new URL(request.url ?? "", "http://node");
    if (ignored !== undefined) url.searchParams.delete(ignored);
    request.url = url.pathname + url.search;
    take(request, socket as TLSSocket, head);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const other = { id: "other", epoch: 1, address: `127.0.0.1:${port}`, tls_fingerprint: "" };
  const it = await startRig({
    others: async () => [other],
    connect: async () => connect({ port, host: "127.0.0.1" }) as TLSSocket,
    onUpgrade: (one) => (take = one),
    close: async () => {},
  });
  return {
    it,
    /** The robot connects to the other node. */
    move: async () => {
      it.sessions.delete(it.robot_id);
      await it.plane.db.run(sql`update robot set node_id = 'other', node_epoch = 1 where id = ${it.robot_id}`);
    },
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]();
      server.close();
    },
  };
}

for (const [name, ignored, first] of [
  ["a node of this version continues after the cursor", undefined, 11],
  ["a node of an earlier version, which ignores cursors, continues at the cursor's time", "cursor", 1],
] as const)
  test(`${name} when it serves a relayed log`, TIMEOUT, async () => {
    await using relayed = await startRelayed(ignored);
    const { it } = relayed;
    await ingestLogs(it.plane, it.session, flush(1, 10));
    const viewer = it.view(`${it.path}?token=${it.token}&cursor=`);
    await until("the cursor", () => viewer.cursors.length === 1);
    viewer.ws.terminate();
    await it.rig.clock.advance({ seconds: 1 });
    // More records than a stream without a position sends at its start.
    for (let seq = 11; seq <= 310; seq += 10) await ingestLogs(it.plane, it.session, flush(seq, seq + 9));
    await relayed.move();
    const again = it.view(`${it.path}?token=${it.token}&cursor=${viewer.cursors[0]}`);
    // The plane has no session of the robot, so it ends the stream after the stored records.
    assert.match(await again.closed, /^4409/);
    assert.deepEqual(again.seqs, range(first, 310));
  });
