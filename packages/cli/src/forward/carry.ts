import type { Socket } from "node:net";
import type { Ending, Stream } from "@robofleet/sdk";
import { drained } from "@robofleet/protocol/drained";

/** A frame of the service's may be no longer. */
const FRAME_BYTES_MAX = 60 * 1024;
const EOF = JSON.stringify({ type: "eof" });
const RESET = JSON.stringify({ type: "reset" });

/**
 * Carries the bytes of a connection of this machine through a stream `forward`, each way until its sender is done, and neither faster
 * than the other takes them. Resolves with how the stream ended; a tunnel that broke is a reset connection here.
 */
export async function carryConnection(socket: Socket, stream: Stream): Promise<Ending> {
  let torn = false;
  socket.on("error", () => {
    torn = true;
    void stream.send(RESET);
    stream.close();
  });
  socket.once("close", () => {
    // When both sides are done, the robot may still be busy with what it was sent: it ends the stream.
    if (!torn && !(socket.readableEnded && socket.writableFinished)) stream.close();
  });
  const outward = carryOut(socket, stream);
  await carryIn(socket, stream);
  const ending = stream.ending ?? { code: 1006, reason: "" };
  if (ending.code !== 1000) socket.resetAndDestroy();
  else if (!socket.destroyed) socket.end();
  await outward;
  return torn ? { code: 1000, reason: "" } : ending;
}

async function carryIn(socket: Socket, stream: Stream): Promise<void> {
  for await (const { binary, data } of stream) {
    if (binary) {
      if (!socket.write(data)) await drained(socket);
    } else if (typeOf(data) === "eof") socket.end();
  }
}

/** Ends when the connection has no more to say, or is gone. */
async function carryOut(socket: Socket, stream: Stream): Promise<void> {
  try {
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
      const bytes = chunk as Buffer;
      for (let offset = 0; offset < bytes.length; offset += FRAME_BYTES_MAX)
        await stream.send(bytes.subarray(offset, offset + FRAME_BYTES_MAX));
    }
    await stream.send(EOF);
  } catch {
    // Its error event has said it, or it was gone before somebody listened: then nothing else closes the tunnel.
    stream.close();
  }
}

function typeOf(data: Buffer): unknown {
  try {
    return (JSON.parse(data.toString("utf8")) as { type?: unknown } | null)?.type;
  } catch {
    return undefined;
  }
}
