import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import {
  channelBinding,
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FrameType,
  type Hello,
  hostOf,
  type LinkChallenge,
  LINK_PROTOCOLS,
  LINK_SUBPROTOCOL,
  type ServerMessage,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import { answerChallenge, type Identity } from "../../packages/swarm/src/testing/identity.ts";

export const helloOf = (id: string, identity: Identity, challenge: LinkChallenge, features = ["credit", "channels"]): Hello => ({
  type: "hello",
  protocols: [...LINK_PROTOCOLS],
  robot_id: id,
  signature: answerChallenge(identity, id, challenge),
  boot_id: "boot",
  run_id: "run",
  outbox_id: "outbox",
  agent_version: "0.1.0",
  platform: { os: "linux", arch: "x64", hostname: "arm-7" },
  kinds: [],
  streams: [],
  features,
  generation: 0,
});

/** Encodes one link frame as a client does: a complete WebSocket message with a mask of zeros. */
export function wireFrame(frame: Uint8Array): Buffer {
  const header_bytes = frame.length <= 125 ? 6 : frame.length <= 0xffff ? 8 : 14;
  const wire = Buffer.alloc(header_bytes + frame.length);
  wire[0] = 0x82;
  if (header_bytes === 6) wire[1] = 0x80 | frame.length;
  else if (header_bytes === 8) {
    wire[1] = 0x80 | 126;
    wire.writeUInt16BE(frame.length, 2);
  } else {
    wire[1] = 0x80 | 127;
    wire.writeUInt32BE(frame.length, 6);
  }
  wire.set(frame, header_bytes);
  return wire;
}

export const controlFrame = (message: unknown): Buffer =>
  encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.from(JSON.stringify(message)));

/** Opens a link that has received its challenge but has not sent hello. */
export async function openLink(url: string): Promise<{ socket: WebSocket; tcp: Socket; challenge: LinkChallenge }> {
  const socket = new WebSocket(url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, { perMessageDeflate: false });
  socket.on("error", () => {});
  const upgraded = once(socket, "upgrade") as Promise<[IncomingMessage]>;
  const [challenge] = (await once(socket, "message")) as [Buffer];
  const { nonce } = JSON.parse(decodeFrame(challenge).payload.toString()) as { nonce: string };
  const [{ socket: tcp }] = await upgraded;
  return { socket, tcp, challenge: { nonce, host: hostOf(url), channel: channelBinding(tcp) } };
}

/** An authenticated link over which a test sends arbitrary bytes. */
export class RawRobot {
  readonly socket: WebSocket;
  readonly tcp: Socket;
  /** Messages of the server after the welcome. */
  readonly heard: ServerMessage[] = [];
  /** Resolves with the close code. */
  readonly closed: Promise<number>;

  private constructor(socket: WebSocket, tcp: Socket) {
    this.socket = socket;
    this.tcp = tcp;
    this.closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("message", (data) => {
      const frame = decodeFrame(data as Buffer);
      if (frame.type !== FrameType.DATA || frame.channel !== CONTROL_CHANNEL || frame.flags !== 0) return;
      this.heard.push(JSON.parse(Buffer.from(frame.payload).toString()) as ServerMessage);
    });
  }

  /** Opens a link. Waits and tries again while the server states that the robot opens links too often. */
  static async connect(url: string, { id, identity }: { id: string; identity: Identity }, features?: string[]): Promise<RawRobot> {
    for (;;) {
      const { socket, tcp, challenge } = await openLink(url);
      const answered = once(socket, "message") as Promise<[Buffer]>;
      socket.send(controlFrame(helloOf(id, identity, challenge, features)));
      const answer = JSON.parse(decodeFrame((await answered)[0]).payload.toString()) as ServerMessage;
      if (answer.type !== "refused" || answer.retry_after_ms === undefined) return new RawRobot(socket, tcp);
      socket.terminate();
      await setTimeout(answer.retry_after_ms);
    }
  }

  get open(): boolean {
    return this.socket.readyState === WebSocket.OPEN && !this.tcp.destroyed;
  }

  /** Writes raw bytes. Resolves when the system has accepted them, the link is closed, or `wait_ms` have passed. */
  async write(bytes: Uint8Array, wait_ms = 60_000): Promise<void> {
    if (!this.open || this.tcp.write(bytes)) return;
    // An error closes the link too.
    const signal = AbortSignal.timeout(Math.ceil(wait_ms));
    const drained = once(this.tcp, "drain", { signal }).catch(() => {});
    await Promise.race([drained, this.closed]);
  }

  frame(frame: Uint8Array): Promise<void> {
    return this.write(wireFrame(frame));
  }

  async end(): Promise<void> {
    this.socket.terminate();
    await this.closed;
  }
}
