import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { setPriority } from "node:os";
import { setTimeout } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { until } from "@roamfleet/clock/testing";
import { LINK_SUBPROTOCOL } from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { createClient } from "@roamfleet/sdk";
import { WebSocket } from "ws";
import { RawRobot } from "../hostile/raw-robot.ts";
import { call, createPlace, enroll, logFrame, type Org, release } from "./tenant-requests.ts";

/** The flood's parameters, passed as the worker's data. */
export interface FloodOrder {
  url: string;
  /** An admin token of the hostile org. */
  token: string;
  tokens: number;
  robots: number;
  sockets: number;
  event_streams: number;
}

/** How often the server accepted and refused each kind of request. */
export type FloodReport = Record<string, { taken: number; refused: number }>;

/**
 * Posts "at its limits" once the server has refused uploads and event streams. Any message to this worker ends the flood; the worker then
 * posts a report.
 */
const order = workerData as FloodOrder;
// In reality a tenant runs on other machines, so this thread must take no CPU time from the server. On Linux, this call lowers the priority
// of this thread only.
setPriority(0, 19);
const { url } = order;
const GIB = 1024 ** 3;
const report: FloodReport = {};
let over = false;

function count(what: string, status: number): void {
  const counts = (report[what] ??= { taken: 0, refused: 0 });
  if (status > 0 && status < 400) counts.taken += 1;
  else counts.refused += 1;
}

/** Opens a link that never authenticates, from an address of the hostile org. */
function silentSocket(): WebSocket {
  const socket = new WebSocket(url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, { localAddress: "127.0.0.9" });
  socket.on("error", () => {});
  return socket;
}

/** Sends logs from one robot as fast as its link takes them. */
async function floodLogs(key: string): Promise<void> {
  const robot = await RawRobot.connect(url, await enroll(url, key));
  for (let seq = 1; !over && robot.open; seq += 100) {
    await robot.frame(logFrame(seq, 100, "x".repeat(300)));
    count("log flushes", 200);
    await setTimeout(1);
  }
  await robot.end();
}

/** Repeats a request as fast as it is answered. */
async function repeat(what: string, ask: () => Promise<Response>): Promise<void> {
  while (!over) {
    const answer = await ask().catch(() => undefined);
    await answer?.body?.cancel();
    count(what, answer?.status ?? 0);
    // A refused client retries, but not in a busy loop.
    await setTimeout((answer?.status ?? 0) < 400 ? 1 : 20);
  }
}

async function announceUpload(token: string): Promise<Response> {
  const made = await call(url, token, "POST", "/api/releases", { body: release(2 * GIB) });
  if (!made.ok) return made;
  const { data } = (await made.json()) as { data: { id: string } };
  return await call(url, token, "POST", `/api/releases/${data.id}/artifact`, {
    headers: { "tus-resumable": "1.0.0", "upload-length": String(2 * GIB) },
  });
}

async function openEventStream(token: string, signal: AbortSignal): Promise<void> {
  const answer = await fetch(`${url}/api/events`, { headers: { authorization: `Bearer ${token}` }, signal }).catch(() => undefined);
  count("event streams", answer?.status ?? 0);
  await answer?.body?.pipeTo(new WritableStream()).catch(() => {});
}

const org: Org = { token: order.token, api: createClient({ base_url: url, token: order.token }) };
const { fleet_id, key } = await createPlace(org);
const tokens: string[] = [];
for (let i = 0; i < order.tokens; i += 1)
  tokens.push((await org.api.createToken({ body: { label: `t${i}`, role: "admin" } })).data.token ?? "");
const { tag } = (await org.api.createRelease({ body: release(1_000) })).data;
const tokenOf = (i: number): string => tokens[i % tokens.length] ?? org.token;
const deploy = (token: string): Promise<Response> =>
  call(url, token, "POST", "/api/deployments", {
    body: { fleet_id, release: tag },
    headers: { "idempotency-key": randomBytes(8).toString("hex") },
  });

const ends = new AbortController();
const sockets = Array.from({ length: order.sockets }, silentSocket);
const running = [
  ...Array.from({ length: order.robots }, () => floodLogs(key)),
  ...tokens.map((token) => repeat("lists", () => call(url, token, "GET", "/api/robots"))),
  ...Array.from({ length: 4 }, (_, i) => repeat("uploads", () => announceUpload(tokenOf(i)))),
  ...Array.from({ length: 2 }, (_, i) => repeat("deployments", () => deploy(tokenOf(i)))),
  repeat("enrollments", async () => new Response(null, { status: (await enroll(url, key)).status })),
  ...Array.from({ length: order.event_streams }, (_, i) => openEventStream(tokenOf(i), ends.signal)),
];
await until("the org to reach its limits", () => ["uploads", "event streams"].every((what) => (report[what]?.refused ?? 0) > 0));
parentPort?.postMessage("at its limits", []);
await once(parentPort!, "message");
over = true;
ends.abort();
for (const socket of sockets) socket.terminate();
await Promise.allSettled(running);
parentPort?.postMessage(report, []);
