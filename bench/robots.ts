import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import {
  channelBinding,
  CONTROL_CHANNEL,
  decodeFrame,
  FrameType,
  hostOf,
  type LinkChallenge,
  type LinkFeature,
  LINK_PROTOCOLS,
  LINK_SUBPROTOCOL,
  linkChallengeText,
  messageFrames,
  type ServerMessage,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import pg from "pg";
import { WebSocket } from "ws";
import { standInNode } from "../tests/processes/stand-in-node.ts";
import type { Rig } from "./rig.ts";

export interface BenchRobot {
  id: string;
  private_key: KeyObject;
}

/** Inserts robots directly into the database: enrollment is not measured. */
export async function insertRobots(rig: Rig, count: number): Promise<BenchRobot[]> {
  const { data: site } = await rig.api.createSite({ body: { name: `site ${randomBytes(6).toString("hex")}` } });
  const { data: fleet } = await rig.api.createFleet({ body: { name: "bench", site_id: site.id } });
  const robots = Array.from({ length: count }, () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    return {
      id: `rob_${randomBytes(13).toString("hex")}`,
      private_key: privateKey,
      public_key: Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url"),
    };
  });
  const client = new pg.Client(rig.database);
  await client.connect();
  const [ids, keys] = [robots.map(({ id }) => id), robots.map(({ public_key }) => public_key)];
  await client.query(
    `insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
     select $1, r.id, 'bench-' || r.id, $2, $3, r.key, now(), now() from unnest($4::text[], $5::bytea[]) as r (id, key)`,
    [rig.org_id, site.id, fleet.id, ids, keys],
  );
  await client.query(
    `insert into robot_key (public_key, org_id, robot_id, created_at) select r.key, $1, r.id, now() from unnest($2::text[], $3::bytea[]) as r (id, key)`,
    [rig.org_id, ids, keys],
  );
  await client.query("analyze robot; analyze robot_key");
  await client.end();
  return robots;
}

/** Inserts robots without keys, which cannot connect, into a fleet. `online`: the robots are marked as connected to another server. */
export async function insertFleet(rig: Rig, count: number, online: "online" | "offline" = "offline"): Promise<string> {
  const { data: site } = await rig.api.createSite({ body: { name: `site ${randomBytes(6).toString("hex")}` } });
  const { data: fleet } = await rig.api.createFleet({ body: { name: "bench", site_id: site.id } });
  const client = new pg.Client(rig.database);
  await client.connect();
  // Keep this node alive until the database stops.
  if (online === "online") await standInNode(rig.database, "node_bench");
  await client.query(
    `insert into robot (org_id, id, name, site_id, fleet_id, public_key, kinds, node_id, node_epoch, created_at, updated_at)
     select $1, 'rob_' || lpad(n::text, 26, '0'), 'bench-' || n, $2, $3, decode(md5(n::text) || md5(n::text || 'b'), 'hex'), '["app_bundle"]',
       case when $5 then 'node_bench' end, case when $5 then 1 end, now(), now()
     from generate_series(1, $4::int) n`,
    [rig.org_id, site.id, fleet.id, count, online === "online"],
  );
  await client.query("analyze robot");
  await client.end();
  return fleet.id;
}

/** A release whose artifact is marked as stored. */
export async function insertRelease(rig: Rig): Promise<string> {
  const { data } = await rig.api.createRelease({
    body: { tag: randomBytes(6).toString("hex"), kind: "app_bundle", artifact_sha256: randomBytes(32).toString("hex"), artifact_size: 1 },
  });
  const client = new pg.Client(rig.database);
  await client.connect();
  await client.query("update release set artifact_state = 'stored' where org_id = $1 and id = $2", [rig.org_id, data.id]);
  await client.end();
  return data.id;
}

const WELCOME_TIMEOUT_MS = 30_000;

/** Connection settings of a robot. */
export interface Server {
  url: string;
  ca?: string | undefined;
}

/**
 * Opens a robot's link and resolves after the welcome message, or after the desired state, which is sent once the robot's presence is
 * stored.
 */
export function connectRobot(
  { url, ca }: Server,
  robot: BenchRobot,
  until: "welcome" | "desired" = "welcome",
  features: LinkFeature[] = [],
): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}${LINK_PATH}`, LINK_SUBPROTOCOL, { perMessageDeflate: false, ca });
    const late = setTimeout(() => reject(new Error("no welcome in time")), WELCOME_TIMEOUT_MS);
    let channel = "";
    socket.on("upgrade", (response) => (channel = channelBinding(response.socket)));
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const frame = decodeFrame(data);
      if (frame.type !== FrameType.DATA) return;
      const message = JSON.parse(Buffer.from(frame.payload).toString("utf8")) as ServerMessage;
      if (message.type === "challenge")
        sendMessage(socket, CONTROL_CHANNEL, { ...hello(robot, { nonce: message.nonce, host: hostOf(url), channel }), features });
      if (message.type === until) {
        clearTimeout(late);
        socket.removeAllListeners("message");
        resolve(socket);
      }
      if (message.type === "refused") reject(new Error(message.message));
    });
  });
}

export const hello = (robot: BenchRobot, challenge: LinkChallenge) => ({
  type: "hello",
  protocols: [...LINK_PROTOCOLS],
  robot_id: robot.id,
  signature: sign(null, Buffer.from(linkChallengeText(robot.id, challenge)), robot.private_key).toString("base64"),
  channel: challenge.channel,
  boot_id: "bench",
  run_id: "bench",
  outbox_id: robot.id,
  agent_version: "bench",
  platform: {},
  kinds: [],
  streams: [],
  generation: 0,
});

/** Runs `work` for each item with limited concurrency. */
export async function concurrently<T, R>(items: readonly T[], at_a_time: number, work: (item: T, i: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const take = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i] as T, i);
  };
  await Promise.all(Array.from({ length: at_a_time }, take));
  return results;
}

export function sendMessage(socket: WebSocket, channel: number, message: unknown): void {
  for (const frame of messageFrames(channel, Buffer.from(JSON.stringify(message)))) socket.send(frame);
}
