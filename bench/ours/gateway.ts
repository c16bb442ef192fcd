/**
 * The server's link alone: it has no database and admits every completed handshake. Shows the link's share of the cost of admitting a
 * robot, and how fast messages are sent. `GET /send?bytes=N` sends each robot a message with a frame of N bytes.
 */
import { idleActivity, idSource, systemClock } from "@roamfleet/clock";
import { FRAME_HEADER_BYTES, type ServerMessage } from "@roamfleet/protocol/link";
import { LIMIT_DEFAULTS } from "../../packages/server/src/config.ts";
import { createLog } from "../../packages/server/src/kernel/log.ts";
import { Gateway } from "../../packages/server/src/link/index.ts";
import { listener } from "../listener.ts";

const nothing = (): Promise<void> => Promise.resolve();
const robots = new Set<string>();
const gateway = new Gateway({
  is_held: () => true,
  clock: systemClock,
  id: idSource(systemClock),
  log: createLog({ level: "error" }),
  activity: idleActivity,
  settings: { ...LIMIT_DEFAULTS, heartbeat_seconds: 600, unauthenticated_links_max: 20_000, link_accepts_per_second: 0 },
  handlers: () => ({
    admit: () => Promise.resolve({ admitted: true, org_id: "org_bench", acked_seq: 0, acked_log_seq: 0, public_key: Buffer.alloc(32) }),
    connected: ({ robot_id }) => {
      robots.add(robot_id);
      return nothing();
    },
    disconnected: ({ robot_id }) => {
      robots.delete(robot_id);
      return nothing();
    },
    messages: { report: nothing, progress: nothing, health: nothing, logs: nothing },
  }),
});

/** A deployment message, padded to a length. */
function messageOf(bytes: number): ServerMessage {
  const manifest = (filling: string): ServerMessage => ({
    type: "desired",
    generation: 7,
    configs: {},
    apps: {
      main: {
        release: {
          id: "rel_1",
          tag: "v1",
          kind: "bundle",
          artifact_sha256: "a".repeat(64),
          artifact_size: 1e9,
          image: null,
          manifest: { filling },
        },
        target_id: "tgt_1",
        deployment_id: "dep_1",
        attempt: 1,
        policy: { verify_seconds: 30 },
      },
    },
  });
  return manifest("x".repeat(bytes - FRAME_HEADER_BYTES - Buffer.byteLength(JSON.stringify(manifest("")))));
}

const http = listener((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://bench");
  if (pathname === "/send") {
    const message = messageOf(Number(searchParams.get("bytes")));
    for (const robot_id of robots) gateway.send(robot_id, message);
  }
  response.end(JSON.stringify({ robots: robots.size }));
});
http.on("upgrade", (request, socket, head) =>
  gateway.upgrade(request, socket, head, { ip: "127.0.0.1", host: request.headers.host ?? "", channel: "" }),
);
