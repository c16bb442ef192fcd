import type { Socket } from "node:net";
import type { Ending, Stream } from "@roamfleet/sdk";
import { drained } from "@roamfleet/protocol/drained";

/** Maximum payload of a frame to the service. */
const FRAME_BYTES_MAX = 60 * 1024;
const EOF = JSON.stringify({ type: "eof" });
const RESET = JSON.stringify({ type: "reset" });

/**
 * Relays a local connection through a `forward` stream until both senders are done, with backpressure in both directions. Resolves with how
 * the stream ended; a broken tunnel resets the local connection.
 */
export async function carryConnection(socket: Socket, stream: Stream): Promise<Ending> {
  let torn = false;
  socket.on("error", () => {
    torn = true;
    void stream.send(RESET);
    stream.close();
  });
  socket.once("close", () => {
    // When both sides are done, the robot may still be delivering data: it closes the stream.
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

/** Ends when the connection is half-closed or closed. */
async function carryOut(socket: Socket, stream: Stream): Promise<void> {
  try {
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
      const bytes = chunk as Buffer;
      for (let offset = 0; offset < bytes.length; offset += FRAME_BYTES_MAX)
        await stream.send(bytes.subarray(offset, offset + FRAME_BYTES_MAX));
    }
    await stream.send(EOF);
  } catch {
    // The error event reported it, or the connection closed before there was a listener: then this closes the tunnel.
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
