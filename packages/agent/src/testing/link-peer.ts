import { createPublicKey, verify } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { UNTIL_MS } from "@roamfleet/clock/testing";
import {
  asksTime,
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FLAG_PACKED,
  FLAG_REPLY,
  FrameType,
  type HealthBody,
  type Hello,
  LINK_PROTOCOLS,
  LINK_SUBPROTOCOL,
  linkChallengeText,
  LOG_CHANNEL,
  type Logs,
  type LogRecordBody,
  MessageAssembler,
  MESSAGE_BYTES_MAX,
  messageFrames,
  type Report,
  type RobotMessage,
  type ServerMessage,
  timeReply,
  unpackMessage,
  type Welcome,
} from "@roamfleet/protocol/link";
import { type WebSocket, WebSocketServer } from "ws";

/** A minimal server for the link. It verifies signatures, acknowledges messages, and misbehaves if a test configures that. */
export interface LinkPeer {
  readonly url: string;
  /** The `hello` messages received since the start. */
  readonly hellos: Hello[];
  readonly reports: Report[];
  readonly records: LogRecordBody[];
  readonly health: HealthBody[];
  /** Number of compressed messages received. */
  packed: number;
  readonly enrollments: { key: string; public_key: string }[];
  /** Number of upgrade requests, including refused ones. */
  attempts: number;
  /** Types of the messages in the current session, in the order of their arrival. */
  readonly order: string[];
  readonly behavior: Behavior;
  send(message: ServerMessage): void;
  /** Sends bytes as one WebSocket message. */
  sendRaw(bytes: Uint8Array): void;
  goAway(retry_after_ms: number): void;
  /**
   * Resolves when both sides have read everything that was sent before the call: the robot everything of the current session, and the peer
   * everything from the robot.
   */
  settled(): Promise<void>;
  /** Drops the connection without a close frame. */
  drop(): void;
  readonly connected: boolean;
  /** Close code that the robot sent when it last ended a session. */
  close_code: number | undefined;
  stop(): Promise<void>;
}

export interface Behavior {
  /** Error with which the peer responds to an upgrade or an enrollment. */
  refuse_http?: { status: number; headers?: Record<string, string>; message: string } | undefined;
  /** Refusal that the peer sends instead of a welcome. */
  refuse?: Omit<Extract<ServerMessage, { type: "refused" }>, "type"> | undefined;
  /** If true, the peer never sends a challenge. */
  mute?: boolean;
  ignore_pings?: boolean;
  /** Returns the time that the peer sends with each heartbeat. Absent: the peer sends none, like a server without this feature. */
  server_time?: () => number;
  ack?: boolean;
  welcome: Partial<Welcome>;
}

export async function startLinkPeer(port = 0): Promise<LinkPeer> {
  const http = createServer((request, response) => void answer(request, response));
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => LINK_SUBPROTOCOL });
  const keys = new Map<string, string>();
  let current: WebSocket | undefined;
  const behavior: Behavior = { welcome: {}, ack: true };
  const peer: LinkPeer = {
    url: "",
    hellos: [],
    reports: [],
    records: [],
    health: [],
    packed: 0,
    enrollments: [],
    attempts: 0,
    order: [],
    behavior,
    send: (message) => sendTo(current!, message),
    sendRaw: (bytes) => current!.send(bytes),
    goAway: (retry_after_ms) =>
      current!.send(encodeFrame(FrameType.GOAWAY, CONTROL_CHANNEL, Buffer.from(JSON.stringify({ retry_after_ms })))),
    settled: async () => {
      // Send a WebSocket ping after all data. The robot's socket answers it without involving its session.
      const answered = once(current!, "pong", { signal: AbortSignal.timeout(UNTIL_MS) });
      current!.ping();
      await answered;
    },
    drop: () => current?.terminate(),
    get connected() {
      return current !== undefined;
    },
    close_code: undefined,
    stop: async () => {
      for (const socket of sockets.clients) socket.terminate();
      await closeServer(http);
    },
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const { refuse_http } = behavior;
    if (refuse_http !== undefined) {
      response.writeHead(refuse_http.status, { "content-type": "application/json", ...refuse_http.headers });
      response.end(JSON.stringify({ error: { code: "refused", message: refuse_http.message } }));
      return;
    }
    if (request.url !== "/agent/enroll") return void response.writeHead(404).end();
    const body = JSON.parse(text) as { key: string; public_key: string; name?: string };
    peer.enrollments.push(body);
    const known = [...keys].find(([, public_key]) => public_key === body.public_key)?.[0];
    const robot_id = known ?? `rob_${keys.size + 1}`;
    keys.set(robot_id, body.public_key);
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ data: { robot_id, org_id: "org_1", name: body.name ?? robot_id } }));
  }

  http.on("upgrade", (request, socket, head) => {
    peer.attempts += 1;
    const { refuse_http } = behavior;
    if (refuse_http !== undefined) {
      const headers = Object.entries(refuse_http.headers ?? {})
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join("");
      const body = JSON.stringify({ error: { code: "refused", message: refuse_http.message } });
      socket.end(`HTTP/1.1 ${refuse_http.status} Refused\r\n${headers}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, serve);
  });

  function serve(socket: WebSocket): void {
    const assemblers = { [CONTROL_CHANNEL]: new MessageAssembler(), [LOG_CHANNEL]: new MessageAssembler() };
    const nonce = `nonce-${peer.attempts}`;
    socket.on("message", (data) => {
      const frame = decodeFrame(data as Buffer);
      if (frame.type === FrameType.PING && !(frame.flags & FLAG_REPLY) && behavior.ignore_pings !== true) {
        const { server_time } = behavior;
        const payload = asksTime(frame) && server_time !== undefined ? timeReply(server_time()) : frame.payload;
        socket.send(encodeFrame(FrameType.PING, CONTROL_CHANNEL, payload, FLAG_REPLY));
      }
      if (frame.type !== FrameType.DATA) return;
      const bytes = assemblers[frame.channel as 0 | 1].push(frame);
      if (bytes === undefined) return;
      if ((frame.flags & FLAG_PACKED) !== 0) peer.packed += 1;
      const message = (frame.flags & FLAG_PACKED) === 0 ? bytes : unpackMessage(bytes, MESSAGE_BYTES_MAX);
      hear(socket, JSON.parse(Buffer.from(message).toString()) as RobotMessage, nonce);
    });
    socket.on("close", (code) => {
      peer.close_code = code;
      if (current === socket) current = undefined;
    });
    peer.order.length = 0;
    if (behavior.mute !== true) sendTo(socket, { type: "challenge", nonce, protocols: [...LINK_PROTOCOLS] });
  }

  function hear(socket: WebSocket, message: RobotMessage, nonce: string): void {
    peer.order.push(message.type);
    if (message.type === "hello") greet(socket, message, nonce);
    else if (message.type === "health") peer.health.push(message.snapshot);
    else if (message.type === "report") {
      if (message.seq > (peer.reports.at(-1)?.seq ?? 0)) peer.reports.push(message);
      if (behavior.ack) sendTo(socket, { type: "ack", seq: message.seq });
    } else if (message.type === "logs") hearLogs(socket, message);
  }

  function hearLogs(socket: WebSocket, { records }: Logs): void {
    for (const record of records) if (record.seq > (peer.records.at(-1)?.seq ?? 0)) peer.records.push(record);
    if (behavior.ack) sendTo(socket, { type: "log_ack", seq: records.at(-1)!.seq });
  }

  function greet(socket: WebSocket, hello: Hello, nonce: string): void {
    peer.hellos.push(hello);
    if (behavior.refuse !== undefined) return sendTo(socket, { type: "refused", ...behavior.refuse });
    const raw = Buffer.from(keys.get(hello.robot_id) ?? "", "base64");
    const key = createPublicKey({ key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]), format: "der", type: "spki" });
    if (
      !verify(
        null,
        Buffer.from(linkChallengeText(hello.robot_id, { nonce, host: new URL(peer.url).host, channel: hello.channel ?? "" })),
        key,
        Buffer.from(hello.signature, "base64"),
      )
    ) {
      return sendTo(socket, { type: "refused", code: "bad_signature", message: "the signature does not fit" });
    }
    current = socket;
    sendTo(socket, {
      type: "welcome",
      protocol: LINK_PROTOCOLS[0],
      session_id: `ses_${peer.hellos.length}`,
      server_time: Date.now(),
      heartbeat_seconds: 15,
      health_seconds: 60,
      log_flush_ms: 1_000,
      acked_seq: behavior.ack ? (peer.reports.at(-1)?.seq ?? 0) : 0,
      acked_log_seq: behavior.ack ? (peer.records.at(-1)?.seq ?? 0) : 0,
      ...behavior.welcome,
    });
  }

  http.listen(port, "127.0.0.1");
  await once(http, "listening");
  return Object.defineProperty(peer, "url", { value: `http://127.0.0.1:${(http.address() as AddressInfo).port}` });
}

function sendTo(socket: WebSocket, message: ServerMessage): void {
  for (const frame of messageFrames(CONTROL_CHANNEL, Buffer.from(JSON.stringify(message)))) socket.send(frame);
}

async function closeServer(http: Server): Promise<void> {
  http.close();
  http.closeAllConnections();
  await once(http, "close");
}
