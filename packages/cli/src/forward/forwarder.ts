import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { CLOSE } from "@roamfleet/protocol/paths";
import { ApiError, type Client, type Ending, Unreachable } from "@roamfleet/sdk";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";
import { streamFailure } from "../stream-ending.ts";
import { carryConnection } from "./carry.ts";
import { placeName, type PortSpec } from "./port-spec.ts";

/** Backlog of one listener. */
const BACKLOG = 128;

export interface ForwarderOptions {
  client: Client;
  robot_id: string;
  /** Aborts everything. */
  signal: AbortSignal;
  /** Prints a message to the user, one line each. */
  note: (text: string) => void;
}

/** Local ports that lead to a robot. A failed connection is reported and does not end the others. */
export class Forwarder {
  /** Rejects with errors that make all further connections fail: the token is invalid, or the robot was removed. */
  readonly failed: Promise<never>;
  readonly #options: ForwarderOptions;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #fail: (failure: unknown) => void;
  #offline = false;

  constructor(options: ForwarderOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    this.failed = promise;
    // It may reject before or after there is a handler.
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

  /** Reports the robot's connection state from elsewhere; a change is printed. */
  setOffline(offline: boolean): void {
    if (offline === this.#offline) return;
    this.#offline = offline;
    this.#options.note(offline ? "agent offline: connections fail until the robot is online again" : "the robot is online again");
  }

  async #serve(socket: Socket, host: string, port: number): Promise<void> {
    const { client, robot_id, signal } = this.#options;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    // Before another listener can be attached.
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
