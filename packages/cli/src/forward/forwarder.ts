import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { drained } from "@roamfleet/protocol/drained";
import { MinorGc } from "@roamfleet/protocol/minor-gc";
import { CLOSE } from "@roamfleet/protocol/paths";
import { ApiError, type Client, type Ending, type Stream, Unreachable } from "@roamfleet/sdk";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { streamFailure } from "../stream-ending.ts";

/** Maximum connections of one listener that wait to be accepted (the backlog of the socket). */
const BACKLOG = 128;

export interface ForwarderOptions {
  client: Client;
  robot_id: string;
  /** Aborts all streams. */
  signal: AbortSignal;
  /** Prints a message to the user, one line each. */
  note: (text: string) => void;
}

/** Listens on local ports and forwards their connections to a robot. A failed connection is reported and does not end the others. */
export class Forwarder {
  /** A promise that rejects if all further connections would fail too: the token is invalid, or the robot was removed. */
  readonly failed: Promise<never>;
  readonly #options: ForwarderOptions;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #fail: (failure: unknown) => void;
  #offline = false;

  constructor(options: ForwarderOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    this.failed = promise;
    // Prevents an unhandled rejection if `failed` rejects before the caller awaits it.
    promise.catch(() => {});
    this.#fail = reject;
    this.#options = options;
  }

  /** Listens and returns the port. Rejects with a Failure if the port cannot be opened. */
  async listen({ local_port, host, port }: PortSpec, bind: string): Promise<number> {
    const name = placeName(host, port);
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => void this.#serve(socket, host, port));
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error: NodeJS.ErrnoException) => reject(listenFailure(error, bind, local_port, name)));
      server.listen({ port: local_port, host: bind, backlog: BACKLOG }, resolve);
    });
    server.on("error", () => {});
    this.#servers.push(server);
    return (server.address() as AddressInfo).port;
  }

  /** Stops listening and closes all connections. */
  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Sets whether the robot is offline, and prints a note if that has changed. */
  setOffline(offline: boolean): void {
    if (offline === this.#offline) return;
    this.#offline = offline;
    this.#options.note(offline ? "agent offline: connections fail until the robot is online again" : "the robot is online again");
  }

  async #serve(socket: Socket, host: string, port: number): Promise<void> {
    const { client, robot_id, signal } = this.#options;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    // Attach this listener before anything else, because an error event without a listener would end the process.
    socket.on("error", () => {});
    try {
      const stream = await client.stream("forward", { robot_id, query: { host, port }, signal });
      this.#noteEnding(await carryConnection(socket, stream), placeName(host, port));
    } catch (error) {
      socket.resetAndDestroy();
      this.#noteError(error, placeName(host, port));
    }
  }

  #noteEnding(ending: Ending, name: string): void {
    if (this.#options.signal.aborted) return;
    if (ending.code === CLOSE.agent_offline) return this.setOffline(true);
    this.setOffline(false);
    const failure = streamFailure(ending, { right: "open tunnels", again: "Other connections continue." });
    if (failure === undefined) return;
    if (failure.exit_code === EXIT.auth || failure.exit_code === EXIT.not_found) return this.#fail(failure);
    this.#options.note(`${name}: ${ending.code === CLOSE.ended_by_robot ? ending.reason : failure.message}`);
  }

  #noteError(error: unknown, name: string): void {
    if (this.#options.signal.aborted) return;
    if (error instanceof ApiError && [401, 403, 404].includes(error.status)) return this.#fail(error);
    if (error instanceof ApiError || error instanceof Unreachable) return this.#options.note(`${name}: ${error.message}`);
    this.#fail(error);
  }
}

function listenFailure(error: NodeJS.ErrnoException, bind: string, port: number, name: string): Failure {
  const at = placeName(bind, port);
  if (error.code === "EADDRINUSE")
    return new Failure(EXIT.conflict, `${at} is already in use`, {
      hints: [`0:${name.replace("127.0.0.1:", "")} picks a free port.`],
    });
  if (error.code === "EACCES")
    return new Failure(EXIT.error, `permission denied to listen on ${at}`, {
      hints: ["Use a port of 1024 or above, which needs no privileges."],
    });
  return new Failure(EXIT.error, `cannot listen on ${at}: ${error.code ?? error.message}`);
}

/** For a heap of about 8 MB, of which V8 collects all garbage for each 8 MB of buffers. */
const minor_gc = new MinorGc(2 * 1024 * 1024);

/** Maximum payload of a frame to the service. */
const FRAME_BYTES_MAX = 60 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);
const EOF = JSON.stringify({ type: "eof" });
const RESET = JSON.stringify({ type: "reset" });

/**
 * Relays a local connection through a `forward` stream until both sides have sent everything, with backpressure in both directions.
 * Resolves with the end of the stream. If the tunnel breaks, resets the local connection.
 */
export async function carryConnection(socket: Socket, stream: Stream): Promise<Ending> {
  let torn = false;
  socket.on("error", () => {
    torn = true;
    void stream.send(RESET);
    stream.close();
  });
  socket.once("close", () => {
    // After both sides have sent everything, the robot may still be delivering data: it closes the stream when it is done.
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
      minor_gc.received(data.length);
      if (!socket.write(data)) await drained(socket);
    } else if (typeOf(data) === "eof") socket.end();
  }
}

/** Copies the data of a local TCP connection to the stream. Returns when the local program has closed the connection, or its sending side. */
async function carryOut(socket: Socket, stream: Stream): Promise<void> {
  try {
    // The end of a read that did not fit into a frame. It is sent with the next read if that has arrived already.
    let rest = NOTHING;
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
      const bytes = chunk as Buffer;
      minor_gc.received(bytes.length);
      rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
      while (rest.length > FRAME_BYTES_MAX) {
        await stream.send(rest.subarray(0, FRAME_BYTES_MAX));
        rest = rest.subarray(FRAME_BYTES_MAX);
      }
      if (bytes.length > FRAME_BYTES_MAX) await setImmediate();
      if (socket.readableLength > 0) continue;
      await stream.send(rest);
      rest = NOTHING;
    }
    await stream.send(EOF);
  } catch {
    // Close the stream in case the connection was closed before the listener for errors was attached. Otherwise that listener has closed
    // the stream already.
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

/** Maps a local port to a port that the robot reaches. */
export interface PortSpec {
  /** Port on this machine; 0 selects any free port. */
  local_port: number;
  /** Host name or address of the destination, which the robot resolves. */
  host: string;
  port: number;
}

const PORT_MAX = 65_535;
const FORMS = "LOCAL:REMOTE, LOCAL:HOST:REMOTE, or one number for both ports; 0 as LOCAL picks a free port";

/** Parses `8080:80`, `8080:10.0.0.7:80`, `8080:[fd00::7]:80`, `0:80` or `80`. Throws a usage Failure. */
export function parsePortSpec(text: string): PortSpec {
  const parts = /^(?:(\d+):)?(?:(\[[^\]]+\]|[^:[\]]+):)?(\d+)$/.exec(text);
  const [, local, host = "127.0.0.1", remote] = parts ?? [];
  // `HOST:REMOTE` alone does not specify the local port.
  if (parts === null || (local === undefined && parts[2] !== undefined)) throw usage(`"${text}" is not a port mapping`, `Write ${FORMS}.`);
  const port = Number(remote);
  const local_port = local === undefined ? port : Number(local);
  if (port < 1 || port > PORT_MAX || local_port > PORT_MAX)
    throw usage(`"${text}": a port is a number from 1 to ${PORT_MAX}`, `Write ${FORMS}.`);
  return { local_port, host: host.replace(/^\[(.*)\]$/, "$1"), port };
}

/** Formats host and port. */
export const placeName = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;
