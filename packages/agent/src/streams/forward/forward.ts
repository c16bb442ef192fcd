import { connect, isIP, type Socket } from "node:net";
import { lookup } from "node:dns/promises";
import { type Clock, within } from "@roamfleet/clock";
import { type Channel, controlMessage, dataMessage, FrameError, readMessage, type StreamSource } from "@roamfleet/protocol/link";
import { drained } from "@roamfleet/protocol/drained";
import { fieldsOf } from "../../json.ts";
import { ForwardRules, isPort } from "./rules.ts";

const CLOSE_REFUSED = 4410;
const HOST_CHARACTERS_MAX = 253;

interface ForwardOptions {
  /** Rules of `forward.allow`; throws Error if one is malformed. */
  allow: readonly string[];
  clock: Pick<Clock, "setTimer">;
}

/** TCP tunnels to services that this robot can reach, one connection per channel. */
export function forwardSource({ allow, clock }: ForwardOptions): StreamSource {
  const rules = new ForwardRules(allow);
  return (channel, params) => {
    const target = targetOf(params);
    if (target === undefined) return channel.reset(CLOSE_REFUSED, "a tunnel needs a port from 1 to 65535, and a host as text");
    return open(channel, target, rules, clock);
  };
}

function targetOf(params: unknown): Target | undefined {
  const { host = "127.0.0.1", port } = fieldsOf(params);
  const is_host = typeof host === "string" && host.length <= HOST_CHARACTERS_MAX && /^[\w.:%-]+$/.test(host);
  return is_host && isPort(port) ? { host, port } : undefined;
}

async function open(channel: Channel, target: Target, rules: ForwardRules, clock: ForwardOptions["clock"]): Promise<void> {
  const outward = new Outward(channel);
  let socket;
  try {
    socket = await connectTo(target, rules, clock, (bytes) => outward.take(bytes));
  } catch (error) {
    return channel.reset(CLOSE_REFUSED, reasonOf(error, target));
  }
  await carryTunnel(channel, socket, outward, (error) => reasonOf(error, target));
}

/** Maximum bytes that wait for the channel; beyond this the connection is paused until half of them are sent. */
const WAITING_BYTES_MAX = 128 * 1024;
const RESUME_BYTES = WAITING_BYTES_MAX / 2;
const CLOSE_ENDED = 4410;
const CLOSE_BAD_MESSAGE = 1008;

/**
 * Forwards bytes between a connected socket and a channel. Each direction ends separately: a FIN becomes `eof`, and vice versa. Neither end
 * is read faster than the other accepts data. Sends `open` to the channel first, and resolves when both are closed. `reason` returns the
 * words for an error of the socket.
 */
async function carryTunnel(channel: Channel, socket: Socket, outward: Outward, reason: (error: Error) => string): Promise<void> {
  let failed: Error | undefined;
  let over = false;
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", (error) => (failed = error));
  // The viewer never closes the channel normally before the robot does. If the channel ends first, the connection is reset: the service
  // must not mistake that for a FIN.
  void channel.ended.then(() => {
    if (!over) socket.resetAndDestroy();
  });
  outward.begin(socket);
  const inward = carryIn(channel, socket).catch((error: unknown) => {
    over = true;
    channel.reset(CLOSE_BAD_MESSAGE, error instanceof FrameError ? error.message : "the robot could not handle a message of this tunnel");
    socket.resetAndDestroy();
  });
  await closed;
  if (failed === undefined) await outward.done;
  over = true;
  if (failed === undefined) channel.close();
  else channel.reset(CLOSE_ENDED, reason(failed));
  await inward;
}

async function carryIn(channel: Channel, connection: Socket): Promise<void> {
  for await (const message of channel) {
    const { data, control } = readMessage(message);
    if (data !== undefined) {
      if (!connection.write(data)) await drained(connection);
    } else if (control.type === "eof") connection.end();
    else if (control.type === "reset") connection.resetAndDestroy();
  }
}

/** Forwards data from a connection to a channel. Data that arrives before `begin` waits in a queue. */
class Outward {
  readonly #done = Promise.withResolvers<void>();
  /** Resolves when the channel has sent everything, including the end, or accepts no more. */
  readonly done = this.#done.promise;
  readonly #channel: Channel;
  #socket: Socket | undefined;
  #waiting: Uint8Array[] = [controlMessage({ type: "open" })];
  #waiting_bytes = 0;
  #writing = false;
  #ended = false;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** Queues a copy of received bytes. Returns false if the connection must pause. */
  take(bytes: Uint8Array): boolean {
    this.#waiting.push(dataMessage(bytes));
    this.#waiting_bytes += bytes.length;
    if (this.#socket !== undefined && !this.#writing) void this.#write(this.#socket);
    return this.#waiting_bytes <= WAITING_BYTES_MAX;
  }

  begin(socket: Socket): void {
    this.#socket = socket;
    socket.once("end", () => {
      this.#ended = true;
      this.#waiting.push(controlMessage({ type: "eof" }));
      if (!this.#writing) void this.#write(socket);
    });
    // A connection that closes without `end` was reset: nothing more is sent.
    socket.once("close", () => {
      if (!this.#ended) this.#done.resolve();
    });
    void this.#write(socket);
  }

  async #write(socket: Socket): Promise<void> {
    this.#writing = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (!(await this.#channel.write(next))) return this.#done.resolve();
      const had = this.#waiting_bytes;
      // Only data messages count against the limit of waiting bytes.
      if (next[0] === 0) this.#waiting_bytes -= next.length - 1;
      if (had > RESUME_BYTES && this.#waiting_bytes <= RESUME_BYTES) socket.resume();
    }
    this.#writing = false;
    if (this.#ended) this.#done.resolve();
  }
}

/** Time limit for connecting to one address, including the name lookup. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Interval of keep-alive probes. They detect a dead peer, and keep the connection in the tables of routers. */
const KEEP_ALIVE_MS = 30_000;

interface Target {
  host: string;
  port: number;
}

/** Why there is no connection, in words for the user. */
class NoConnection extends Error {}

/** Receives bytes of a connection; their memory is reused after the call. Returning false pauses the connection until it is resumed. */
type TakeBytes = (bytes: Uint8Array) => boolean;

/** Maximum bytes of one read from a connection. */
const READ_BYTES = 64 * 1024 - 1;

/** Connects to the first allowed address of the target that answers. Rejects with NoConnection. */
async function connectTo(target: Target, rules: ForwardRules, clock: Pick<Clock, "setTimer">, take: TakeBytes): Promise<Socket> {
  const { host, port } = target;
  const found = isIP(host) === 0 ? await withinTime(clock, addressesOf(host), `the robot could not resolve ${host} in time`) : [host];
  const allowed = found.filter((address) => rules.allows(host, address, port));
  if (allowed.length === 0)
    throw new NoConnection(`the robot's configuration does not allow ${nameOf(target)}: forward.allow lists the allowed destinations`);
  let reason = "";
  for (const address of allowed) {
    const socket = connect({
      host: address,
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      // Reuse one buffer: with a new one for each read, most of the time would be spent on garbage collection.
      onread: { buffer: Buffer.allocUnsafe(READ_BYTES), callback: (count, bytes) => take(bytes.subarray(0, count)) },
    });
    try {
      await withinTime(clock, connected(socket), `${nameOf(target)} does not answer`);
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
const nameOf = ({ host, port }: Target): string => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;

const connected = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    // Keep this listener after the connect: an `error` event without a listener would throw.
    socket.on("error", reject);
    socket.once("connect", resolve);
  });

async function withinTime<T>(clock: Pick<Clock, "setTimer">, work: Promise<T>, late: string): Promise<T> {
  const done = await within(
    clock,
    CONNECT_TIMEOUT_MS,
    work.then((value) => ({ value })),
  );
  if (done === undefined) throw new NoConnection(late);
  return done.value;
}

const WORDS = new Map<string, (name: string) => string>([
  ["ECONNREFUSED", (name) => `${name} refused the connection: nothing listens there`],
  ["EHOSTUNREACH", (name) => `the robot has no route to ${name}`],
  ["ENETUNREACH", (name) => `the robot has no route to ${name}`],
  ["ETIMEDOUT", (name) => `${name} does not answer`],
  ["ECONNRESET", (name) => `${name} reset the connection`],
  ["EPIPE", (name) => `${name} accepts no more data`],
]);

function reasonOf(error: unknown, target: Target): string {
  if (error instanceof NoConnection) return error.message;
  const { code = "unknown" } = error as NodeJS.ErrnoException;
  return WORDS.get(code)?.(nameOf(target)) ?? `the connection to ${nameOf(target)} failed (${code})`;
}
