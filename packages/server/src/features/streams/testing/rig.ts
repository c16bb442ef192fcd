import assert from "node:assert/strict";
import { type IncomingHttpHeaders, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import type { LogRecordBody, ServerMessage } from "@roamfleet/protocol/link";
import { isLogCursor, readLogFrame } from "@roamfleet/protocol/log-frame";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { WebSocket } from "ws";
import type { Plane } from "../../../context.ts";
import type { Http } from "../../../kernel/http.ts";
import type { Nodes, Session } from "../../../link/index.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../../testing/places.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { createStreams, type Streams, ticketRoutes } from "../index.ts";

export const record = (seq: number, extra: Partial<LogRecordBody> = {}): LogRecordBody => ({
  seq,
  at: "2030-01-01T00:00:00.000Z",
  level: "info",
  source: "nav2",
  message: `record ${seq}`,
  fields: {},
  ...extra,
});
export const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
export const flush = (from: number, to: number, extra: Partial<LogRecordBody> = {}) => ({
  type: "logs" as const,
  records: range(from, to).map((seq) => record(seq, extra)),
});

export class TestViewer {
  readonly ws: WebSocket;
  readonly records: LogRecord[] = [];
  readonly cursors: string[] = [];
  readonly headers: Promise<IncomingHttpHeaders>;
  readonly closed: Promise<string>;
  constructor(url: string, protocols: string[] = [], headers: Record<string, string> = {}) {
    this.ws = new WebSocket(url, protocols, { headers });
    this.ws.on("error", () => {});
    this.headers = new Promise((resolve) => this.ws.once("upgrade", (response) => resolve(response.headers)));
    this.ws.on("message", (data: Buffer, binary) => {
      assert.equal(binary, false);
      const frame = readLogFrame(data.toString("utf8"));
      assert.ok(frame);
      if (isLogCursor(frame)) this.cursors.push(frame.cursor);
      else this.records.push(frame);
    });
    this.closed = new Promise((resolve) => this.ws.once("close", (code, reason) => resolve(`${code} ${reason.toString("utf8")}`)));
  }
  get seqs(): number[] {
    return this.records.map(({ seq }) => seq);
  }
}

/** Starts the streams of a server without robot connections. One robot is treated as connected. */
export async function startRig(nodes?: Nodes) {
  const sessions = new Map<string, Session>();
  let streams: Streams | undefined;
  let port = 0;
  const mount = (http: Http, plane: Plane): void => {
    plane.settings = { ...plane.settings, limits: { ...plane.settings.limits, followers_per_robot_max: 3 } };
    const made = createStreams(plane, nodes);
    streams = made;
    made.routes(http);
    http.server.on("upgrade", (request, socket, head) => {
      if (!made.upgrade(request, socket, head)) socket.destroy();
    });
    http.server.on("listening", () => (port = (http.server.address() as AddressInfo).port));
  };
  const rig = await startFeaturePlane([mount, ticketRoutes], { sessions });
  const { org_id, token, token_id } = await rig.org({ role: "operator" });
  const { robot_id, fleet_id, site_id } = await seedRobot(rig.plane, org_id);
  const sent: ServerMessage[] = [];
  const session = { ...fakeSession("sess_1", org_id, helloOf(robot_id)), send: (message: ServerMessage) => sent.push(message) > 0 };
  sessions.set(robot_id, session);
  const viewers: TestViewer[] = [];
  const path = `/api/robots/${robot_id}/logs/ws`;
  return {
    rig,
    plane: rig.plane,
    streams: streams!,
    sessions,
    session,
    sent,
    org_id,
    token,
    token_id,
    robot_id,
    fleet_id,
    site_id,
    path,
    /** WebSocket URL of the server. */
    get origin() {
      return `ws://127.0.0.1:${port}`;
    },
    view(of = `${path}?token=${token}`, protocols?: string[], headers?: Record<string, string>) {
      const viewer = new TestViewer(`ws://127.0.0.1:${port}${of}`, protocols, headers);
      viewers.push(viewer);
      return viewer;
    },
    /** Sends an upgrade request and returns its HTTP error response. */

    async refused(of: string, headers: Record<string, string> = {}, method = "GET") {
      const { promise, resolve, reject } = Promise.withResolvers<{ status: number; code: string; headers: IncomingHttpHeaders }>();
      const outgoing = httpRequest(`http://127.0.0.1:${port}${of}`, {
        method,
        headers: {
          connection: "Upgrade",
          upgrade: "websocket",
          "sec-websocket-version": "13",
          "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
          ...headers,
        },
      });
      outgoing.on("upgrade", () => reject(new Error("was upgraded")));
      outgoing.on("error", reject);
      outgoing.on("response", (response) => {
        let body = "";
        response.on("data", (chunk: Buffer) => (body += chunk.toString("utf8")));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            code: (JSON.parse(body) as { error: { code: string } }).error.code,
            headers: response.headers,
          }),
        );
      });
      outgoing.end();
      return promise;
    },
    async [Symbol.asyncDispose]() {
      for (const { ws } of viewers) ws.terminate();
      await streams?.drain();
      await rig[Symbol.asyncDispose]();
    },
  };
}
