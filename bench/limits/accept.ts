/**
 * The limit of admitting a robot: an upgrade by bare node:http, with the link's messages read and written as plain bytes. With DATABASE it
 * also performs the database work of the protocol with the bare driver: identity, signature and TLS channel, positions of the outbox,
 * presence and timeline in one transaction, and the desired state.
 */
import { createHash, createPublicKey, randomBytes, verify } from "node:crypto";
import type { Duplex } from "node:stream";
import {
  channelBinding,
  CONTROL_CHANNEL,
  encodeFrame,
  FRAME_HEADER_BYTES,
  FrameType,
  type Hello,
  LINK_PROTOCOLS,
  linkChallengeText,
} from "@roamfleet/protocol/link";
import pg from "pg";
import {
  listDesiredApps,
  listDesiredConfigs,
  listGenerations,
  listPositions,
} from "../../packages/server/src/features/deployments/store/robot-state.ts";
import { logPositions } from "../../packages/server/src/features/logs/index.ts";
import { setOnline } from "../../packages/server/src/features/robots/store-presence.ts";
import { findIdentity } from "../../packages/server/src/features/robots/store.ts";
import { insertingEntries } from "../../packages/server/src/features/timeline/store.ts";
import { listener } from "../listener.ts";
import { statementOf } from "../statements.ts";

const database = process.env.DATABASE === undefined ? undefined : new pg.Pool({ ...JSON.parse(process.env.DATABASE), max: 10 });
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const WEB_SOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MASK_BYTES = 4;

const sockets = new Set<Duplex>();
const http = listener((_, response) => response.end("{}"));
http.on("upgrade", (request, socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${WEB_SOCKET}`).digest("base64");
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
      `Sec-WebSocket-Protocol: ${request.headers["sec-websocket-protocol"]}\r\n\r\n`,
  );
  const nonce = randomBytes(32).toString("base64url");
  send(socket, { type: "challenge", nonce, protocols: [...LINK_PROTOCOLS] });
  socket.once("data", (bytes: Buffer) => {
    const hello = JSON.parse(unmasked(bytes).toString("utf8", FRAME_HEADER_BYTES)) as Hello;
    if (database === undefined) send(socket, welcome(hello));
    else exposePlane(database, socket, hello, { nonce, host: request.headers.host ?? "" }).catch((error: Error) => socket.destroy(error));
    socket.on("data", () => {});
  });
});

const welcome = (hello: Hello) => ({
  type: "welcome",
  protocol: LINK_PROTOCOLS[0],
  features: [],
  session_id: `sess_${hello.robot_id}`,
  server_time: Date.now(),
  heartbeat_seconds: 600,
  health_seconds: 3600,
  log_flush_ms: 1_000,
  acked_seq: 0,
  acked_log_seq: 0,
});

async function exposePlane(pool: pg.Pool, socket: Duplex, hello: Hello, { nonce, host }: { nonce: string; host: string }): Promise<void> {
  const { robot_id, outbox_id } = hello;
  const channel = channelBinding(socket);
  const found = await pool.query<{ org_id: string; public_key: Buffer }>(statementOf((db) => findIdentity(db, robot_id)));
  const { org_id, public_key } = found.rows[0] as { org_id: string; public_key: Buffer };
  const key = createPublicKey({ key: Buffer.concat([SPKI_PREFIX, public_key]), format: "der", type: "spki" });
  if (!verify(null, Buffer.from(linkChallengeText(robot_id, { nonce, host, channel })), key, Buffer.from(hello.signature, "base64")))
    throw new Error("the signature is not this robot's");
  await pool.query(statementOf((db) => listPositions(db, org_id, [robot_id])));
  await pool.query(statementOf((db) => logPositions(db, org_id, [{ robot_id, outbox_id }])));
  send(socket, welcome(hello));
  const client = await pool.connect();
  const now = new Date();
  const session_id = `sess_${randomBytes(13).toString("hex")}`;
  await client.query("begin");
  await client.query(statementOf((db) => setOnline(db, org_id, { id: "bench", epoch: 1 }, [{ session_id, hello, public_key }], now)));
  const entry = {
    org_id,
    robot_id,
    id: `evt_${randomBytes(13).toString("hex")}`,
    at: now,
    kind: "robot.connected",
    actor: { type: "robot" as const, id: robot_id, name: null },
    summary: "The robot connected",
    data: { session_id, ip: "127.0.0.1", agent_version: hello.agent_version, boot_id: hello.boot_id },
  };
  await client.query(statementOf((db) => db.run(insertingEntries([entry]))));
  await client.query("commit");
  client.release();
  const robot_ids = [robot_id];
  await pool.query(statementOf((db) => listGenerations(db, org_id, robot_ids)));
  await pool.query(statementOf((db) => listDesiredApps(db, org_id, robot_ids)));
  await pool.query(statementOf((db) => listDesiredConfigs(db, org_id, robot_ids)));
  send(socket, { type: "desired", generation: 0, apps: {}, configs: {} });
}

const SHORT_MAX = 125;

function send(socket: Duplex, message: unknown): void {
  const payload = Buffer.from(JSON.stringify(message));
  const length = FRAME_HEADER_BYTES + payload.length;
  const bytes = encodeFrame(FrameType.DATA, CONTROL_CHANNEL, payload, 0, length > SHORT_MAX ? 4 : 2);
  bytes[0] = 0x82;
  bytes[1] = Math.min(length, SHORT_MAX + 1);
  if (length > SHORT_MAX) bytes.writeUInt16BE(length, 2);
  socket.write(bytes);
}

/** Assumes that the hello is one frame, which arrives in one piece over loopback. */
function unmasked(bytes: Buffer): Buffer {
  const start = (((bytes[1] ?? 0) & 0x7f) > SHORT_MAX ? 4 : 2) + MASK_BYTES;
  const payload = bytes.subarray(start);
  for (let i = 0; i < payload.length; i += 1) payload[i] = (payload[i] ?? 0) ^ (bytes[start - MASK_BYTES + (i & 3)] ?? 0);
  return payload;
}
