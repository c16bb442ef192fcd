import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { WebSocket } from "ws";
import { ingestLogs } from "../../logs/index.ts";
import { flush, range, startRig } from "../testing/rig.ts";
import { decodeFlush, encodeFlush, FleetShares, SHARE_READY } from "./fleet-share.ts";

const LIMIT = { timeout: 120_000 };

/** Starts a node with a robot that logs, and a client that requests the fleet's log as another node does. */
async function startShare(query = "") {
  const it = await startRig();
  const shares = new FleetShares(it.plane);
  const asked = { org_id: it.org_id, fleet_id: it.fleet_id, look_every_ms: 5_000 };
  const server = createServer();
  server.on("upgrade", (request: IncomingMessage, socket, head) =>
    shares.upgrade(request, socket, head, asked, new URLSearchParams(query)),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const ws = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const messages: string[] = [];
  ws.on("message", (data: Buffer) => messages.push(data.toString()));
  await until("it is ready", () => messages.shift() === SHARE_READY);
  return {
    it,
    ws,
    shares,
    records: () => messages.flatMap((text) => decodeFlush(text).lines.map((line) => JSON.parse(line) as LogRecord)),
    flushes: () => messages.map(decodeFlush),
    async [Symbol.asyncDispose]() {
      shares.close();
      server.close();
      await it[Symbol.asyncDispose]();
    },
  };
}

test("sends a log batch with its key and only its matching records", LIMIT, async () => {
  await using share = await startShare("level=error");
  const { plane, session, robot_id } = share.it;
  await ingestLogs(plane, session, flush(1, 3));
  await ingestLogs(plane, session, {
    ...flush(4, 5),
    records: [...flush(4, 4).records, ...flush(5, 5, { level: "error", message: "a\nb" }).records],
  });
  await until("the error", () => share.flushes().length === 1);
  const [{ lines, ...key }] = share.flushes() as [ReturnType<typeof decodeFlush>];
  // The sent flush starts where the earlier batch starts, because that batch has no matching record.
  const before = { received_at: "1970-01-01T00:00:00.000Z", seq: 0 };
  assert.deepEqual(key, { robot_id, received_at: "2030-01-01T00:00:00.000Z", first_seq: 4, last_seq: 5, before, seqs: [5] });
  assert.equal((JSON.parse(lines[0]!) as LogRecord).message, "a\nb");
  assert.deepEqual(decodeFlush(encodeFlush({ ...key, lines })), { ...key, lines });
});

test("limits the buffer for a node that does not read, and reports the skipped records", LIMIT, async () => {
  await using share = await startShare();
  const { plane, session } = share.it;
  share.ws.pause();
  const message = "x".repeat(10_000);
  let last = 0;
  // More bytes than the kernel and the server buffer.
  for (; last < 4_000; last += 50) await ingestLogs(plane, session, flush(last + 1, last + 50, { message }));
  share.ws.resume();
  await until("the gap to be reported", () => share.records().some(({ source }) => source === "roamfleet"), {
    progress: () => share.records().length,
  });
  await ingestLogs(plane, session, flush(last + 1, last + 1));
  const all = await until("the newest", () => {
    const records = share.records();
    return records.at(-1)?.seq === last + 1 && records;
  });
  const heard = all.flatMap(({ seq, source, fields }) => {
    if (source !== "roamfleet") return [seq];
    const { gap } = fields as { gap: { from_seq: number; to_seq: number; count: number } };
    assert.equal(gap.count, gap.to_seq - gap.from_seq + 1);
    return range(gap.from_seq, gap.to_seq);
  });
  assert.deepEqual(heard, range(1, last + 1));
});
