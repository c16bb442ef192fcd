/**
 * The server's link alone: it has no database and admits every completed handshake. Shows the link's share of the cost of admitting a
 * robot, and how fast messages are sent. `GET /send?bytes=N` sends each robot a message with a frame of N bytes.
 */
import { idleActivity, idSource, systemClock } from "@roamfleet/clock";
import { LIMIT_DEFAULTS } from "../../packages/server/src/config.ts";
import { createLog } from "../../packages/server/src/kernel/log.ts";
import { Gateway } from "../../packages/server/src/link/index.ts";
import { desiredMessages } from "../desired-message.ts";
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
    messages: { report: nothing, progress: nothing, health: nothing, logs: nothing, samples: nothing },
  }),
});

const http = listener((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://bench");
  if (pathname === "/send") {
    const messageOf = desiredMessages(Number(searchParams.get("bytes")));
    let robot = 0;
    for (const robot_id of robots) gateway.send(robot_id, messageOf(robot++));
  }
  response.end(JSON.stringify({ robots: robots.size }));
});
http.on("upgrade", (request, socket, head) =>
  gateway.upgrade(request, socket, head, { ip: "127.0.0.1", host: request.headers.host ?? "", channel: "" }),
);
