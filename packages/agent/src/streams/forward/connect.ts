import { lookup } from "node:dns/promises";
import { connect, isIP, type Socket } from "node:net";
import type { Clock } from "@roamfleet/clock";
import type { ForwardRules } from "./rules.ts";

/** Per address, including the name lookup. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Detects a dead peer, and keeps the connection in the tables of routers. */
const KEEP_ALIVE_MS = 30_000;

export interface Target {
  host: string;
  port: number;
}

/** Why there is no connection, in words for the user. */
export class NoConnection extends Error {}

/** Receives bytes of a connection, whose memory is reused afterwards; false pauses the connection until it is resumed. */
export type TakeBytes = (bytes: Uint8Array) => boolean;

/** Maximum bytes of one read from a connection. */
const READ_BYTES = 64 * 1024 - 1;

/** Connects to the first allowed address of the target that answers. Rejects with NoConnection. */
export async function connectTo(target: Target, rules: ForwardRules, clock: Pick<Clock, "setTimer">, take: TakeBytes): Promise<Socket> {
  const { host, port } = target;
  const found = isIP(host) === 0 ? await within(clock, addressesOf(host), `the robot could not resolve ${host} in time`) : [host];
  const allowed = found.filter((address) => rules.allows(host, address, port));
  if (allowed.length === 0)
    throw new NoConnection(`the robot's configuration does not allow ${nameOf(target)}: forward.allow names where tunnels may lead`);
  let reason = "";
  for (const address of allowed) {
    const socket = connect({
      host: address,
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      // One buffer for the whole connection: a new one for each read would spend most of the time on garbage collection.
      onread: { buffer: Buffer.allocUnsafe(READ_BYTES), callback: (count, bytes) => take(bytes.subarray(0, count)) },
    });
    try {
      await within(clock, connected(socket), `${nameOf(target)} does not answer`);
      return socket;
    } catch (error) {
      socket.destroy();
      reason = reasonOf(error, target);
    }
  }
  throw new NoConnection(reason);
}

async function addressesOf(host: string): Promise<string[]> {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address);
  } catch {
    throw new NoConnection(`the robot cannot resolve ${host}`);
  }
}

/** Returns address and port as people write them. */
export const nameOf = ({ host, port }: Target): string => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;

const connected = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    // The listener stays: a later error of the connection needs one, too.
    socket.on("error", reject);
    socket.once("connect", resolve);
  });

async function within<T>(clock: Pick<Clock, "setTimer">, work: Promise<T>, late: string): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = clock.setTimer(CONNECT_TIMEOUT_MS, () => reject(new NoConnection(late)));
  try {
    return await Promise.race([work, promise]);
  } finally {
    timer.cancel();
  }
}

const WORDS = new Map<string, (name: string) => string>([
  ["ECONNREFUSED", (name) => `${name} refused the connection: nothing listens there`],
  ["EHOSTUNREACH", (name) => `the robot has no route to ${name}`],
  ["ENETUNREACH", (name) => `the robot has no route to ${name}`],
  ["ETIMEDOUT", (name) => `${name} does not answer`],
  ["ECONNRESET", (name) => `${name} reset the connection`],
  ["EPIPE", (name) => `${name} accepts no more data`],
]);

/** Returns a socket's error in words. */
export function reasonOf(error: unknown, target: Target): string {
  if (error instanceof NoConnection) return error.message;
  const { code = "unknown" } = error as NodeJS.ErrnoException;
  return WORDS.get(code)?.(nameOf(target)) ?? `the connection to ${nameOf(target)} failed (${code})`;
}
