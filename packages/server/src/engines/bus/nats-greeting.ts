import { createConnection } from "node:net";
import type { Clock } from "@roamfleet/clock";

/**
 * Resolves when a server sends its greeting, which NATS does before authentication. Rejects with a message for people after the timeout.
 * Used before the client connects, because the client never closes its connection to a frozen server.
 */
export function greets(
  { host, port }: { host: string; port: number },
  { clock, timeout_ms, signal }: { clock: Pick<Clock, "setTimer">; timeout_ms: number; signal: AbortSignal },
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = createConnection({ host, port, signal });
  const late = clock.setTimer(timeout_ms, () => reject(new Error("does not answer")));
  socket.once("data", () => resolve());
  socket.on("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
  socket.once("close", () => reject(new Error("closed the connection")));
  return promise.finally(() => {
    late.cancel();
    socket.destroy();
  });
}
