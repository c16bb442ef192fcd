import { connect, isIP, type Socket } from "node:net";
import { lookup } from "node:dns/promises";
import { type Clock, within } from "@roamfleet/clock";
import { type Channel, controlMessage, dataMessage, FrameError, readMessage, type StreamSource } from "@roamfleet/protocol/link";
import { drained } from "@roamfleet/protocol/drained";
import { MinorGc } from "@roamfleet/protocol/minor-gc";
import { fieldsOf } from "../../json.ts";
import { ForwardRules, isPort } from "./rules.ts";

const CLOSE_REFUSED = 4410;
const HOST_CHARACTERS_MAX = 253;

interface ForwardOptions {
  /** The rules of the config's `forward.allow`. An invalid rule causes an Error. */
  allow: readonly string[];
  clock: Pick<Clock, "setTimer">;
}

/** For a heap of about 13 MB, of which V8 collects all garbage for each 8 MB of buffers. */
const minor_gc = new MinorGc(2 * 1024 * 1024);

/** Serves TCP tunnels to services that the robot can reach. Each channel is one connection. */
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

/** Maximum received bytes that wait for the channel. Above it, the connection is paused until half of them have been sent. */
const WAITING_BYTES_MAX = 128 * 1024;
const RESUME_BYTES = WAITING_BYTES_MAX / 2;
const CLOSE_ENDED = 4410;
const CLOSE_BAD_MESSAGE = 1008;

/**
 * Forwards bytes between a connected socket and a channel. Each direction ends separately: a FIN becomes `eof`, and vice versa. Reads from
 * either end only as fast as the other accepts data. Sends `open` to the channel first. Resolves when both are closed. `reason` converts an
 * error of the socket to words.
 */
async function carryTunnel(channel: Channel, socket: Socket, outward: Outward, reason: (error: Error) => string): Promise<void> {
  let failed: Error | undefined;
  let over = false;
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", (error) => (failed = error));
  // Reset the connection if the channel ends first. A viewer never closes the channel before the robot does, so this is not a normal end.
  // The service must not mistake it for a FIN.
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
      minor_gc.received(data.length);
      if (!connection.write(data)) await drained(connection);
    } else if (control.type === "eof") connection.end();
    else if (control.type === "reset") connection.resetAndDestroy();
  }
}

/** Forwards data from a connection to a channel. Data that arrives before `begin` waits in a queue. */
class Outward {
  readonly #done = Promise.withResolvers<void>();
  /** Resolves when the channel has sent all data and the end, or accepts no more data. */
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

  /** Copies received bytes into the queue. Returns false if the connection must pause. */
  take(bytes: Uint8Array): boolean {
    minor_gc.received(bytes.length);
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
    // If the connection closes without `end`, it was reset. Then no more data is sent.
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
      // Subtract only data messages, since only they count against the limit.
      if (next[0] === 0) this.#waiting_bytes -= next.length - 1;
      if (had > RESUME_BYTES && this.#waiting_bytes <= RESUME_BYTES) socket.resume();
    }
    this.#writing = false;
    if (this.#ended) this.#done.resolve();
  }
}

/** Time limit in milliseconds for connecting to one address. The name lookup has the same limit. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Interval of TCP keep-alive probes in milliseconds. They detect a dead peer, and keep routers from forgetting the connection. */
const KEEP_ALIVE_MS = 30_000;

interface Target {
  host: string;
  port: number;
}

/** Thrown if there is no connection. The message states the reason for the user. */
class NoConnection extends Error {}

/**
 * Called with the bytes of a connection, whose memory is reused after the call. If it returns false, the connection is paused until it is
 * resumed.
 */
type TakeBytes = (bytes: Uint8Array) => boolean;

/** Maximum bytes that one read from a connection returns. */
const READ_BYTES = 64 * 1024 - 1;

/** Connects to the target. Tries its allowed addresses in order until one answers. Rejects with NoConnection. */
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
      // Use the same buffer for all reads. With a new buffer for each read, most of the time would be spent on garbage collection.
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

/** Returns host and port in the usual form, such as `[::1]:22`. */
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
