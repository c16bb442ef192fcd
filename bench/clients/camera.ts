/**
 * A simulated robot with a camera, and a source of the same frames for the comparison relay. The camera benchmark starts this file as a
 * separate process.
 */
import { createPrivateKey } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Channel, ChannelTable, dataMessage, decodeFrame, encodeFrame, FrameType, SendQueue } from "@roamfleet/protocol/link";
import { WebSocket } from "ws";
import { connectRobot } from "../robots.ts";

export type CameraOrder =
  | { do: "robot"; url: string; robot_id: string; private_key: string }
  | { do: "source"; url: string }
  /** Sends this many frames to the viewers of either the robot or the source, at the rate `fps`. */
  | { do: "send"; to: "robot" | "source"; frames: number; bytes: number; fps: number };

const channels = new Set<Channel>();
let source: WebSocket | undefined;

function serveCamera(socket: WebSocket): void {
  const queue = new SendQueue(
    {
      get bufferedAmount() {
        return socket.bufferedAmount;
      },
      sendFrame: (type, channel, payload, flags, sent) => socket.send(encodeFrame(type, channel, payload, flags), sent),
    },
    { now: () => performance.now() },
  );
  const table = new ChannelTable({
    queue,
    end: "robot",
    clock: {
      setTimer: (ms, work) => {
        const timer = setTimeout(work, ms);
        return { cancel: () => clearTimeout(timer) };
      },
    },
    sources: new Map([
      [
        "camera",
        (channel: Channel) => {
          channels.add(channel);
          void channel.ended.then(() => channels.delete(channel));
        },
      ],
    ]),
    stuck: () => process.exit(1),
  });
  queue.on_room = () => table.retry();
  socket.on("message", (data: Buffer) => {
    const frame = decodeFrame(data);
    const of_a_channel = frame.channel > 1 && frame.type !== FrameType.PING && frame.type !== FrameType.GOAWAY;
    if (of_a_channel) table.receive(frame);
  });
}

async function send({ to, frames, bytes, fps }: Extract<CameraOrder, { do: "send" }>): Promise<void> {
  const frame = Buffer.alloc(bytes, "x");
  const message = dataMessage(frame);
  const start = performance.now();
  for (let i = 0; i < frames; i += 1) {
    await sleep(Math.max(0, start + (i * 1_000) / fps - performance.now()));
    if (to === "source") source?.send(frame);
    else for (const channel of channels) await channel.write(message);
  }
}

async function obey(order: CameraOrder): Promise<void> {
  if (order.do === "send") return send(order);
  if (order.do === "robot")
    return serveCamera(
      await connectRobot(order, { id: order.robot_id, private_key: createPrivateKey(order.private_key) }, "desired", ["channels"]),
    );
  source = new WebSocket(`${order.url.replace(/^http/, "ws")}/source`);
  await new Promise((resolve) => source?.once("open", resolve));
}

process.on("message", (order: CameraOrder) => void obey(order).then(() => process.send?.("done")));
