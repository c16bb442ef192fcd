import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { CLOSE, fleetStreamPaths, streamPaths } from "@roamfleet/protocol";
import { WebSocketServer } from "ws";
import type { Plane } from "../../context.ts";
import { httpError } from "../../kernel/fault.ts";
import { type Http, toFault } from "../../kernel/http.ts";
import { FrameRateLimiter, type Nodes, refuseUpgrade } from "../../link/index.ts";
import { type Admitted, admitViewer, checkHandshake, type Seen, streamOf, targetOf } from "./admit.ts";
import { ShellRegistry } from "../shells/index.ts";
import { Hub } from "./hub.ts";
import type { StreamContext } from "./stream-kind.ts";
import { tooMany } from "./robot-channel.ts";
import { CLOSED_ABNORMALLY, endOf, OpenViewers, StreamRegistry } from "./stream-registry.ts";
import { decodeAdmission, readmit } from "./relay/admission.ts";
import { FLEET_SHARE_PATH, FleetShares } from "./relay/fleet-share.ts";
import { decodeHeader } from "./relay/node-request.ts";
import { type UpgradeRequest, Relays } from "./relay/relays.ts";
import { sweepTickets } from "./tickets.ts";
import { Viewer } from "./viewer.ts";
import { watchViewers } from "./watch.ts";

/** Maximum length of a viewer's message. A longer message ends the stream with 1009. */
const VIEWER_MESSAGE_BYTES_MAX = 64 * 1024;
/** Maximum WebSocket frames of one message. It is limited because the rate limit counts a message once, whatever its number of frames. */
const VIEWER_FRAGMENTS_MAX = 16;
/** Maximum chunks in which one message may arrive. */
const VIEWER_CHUNKS_MAX = 4_096;

export interface Streams {
  /** Adds HTTP routes for the paths of streams, which answer requests that do not upgrade to a WebSocket. */
  routes(http: Http): void;
  /** Handles a request to upgrade to a WebSocket. Returns false if its path is not that of a stream. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** Writes missing ends of streams, for example of those on dead servers. Deletes old tickets. */
  sweep(): Promise<void>;
  /** Closes every viewer with the code 1013, and refuses new viewers. */
  drain(): Promise<void>;
}

/** Data that is needed for the 101 response to an admitted viewer. */
interface UpgradeAnswer {
  admitted: Admitted;
  headers: Record<string, string>;
}

/**
 * Creates the WebSocket streams for viewers: live logs, cameras, topics, shells, tunnels and files. In a cluster, the node that a viewer
 * connects to admits the viewer, and the node that its robot is connected to serves the stream.
 */
export const createStreams = (plane: Plane, nodes?: Nodes): Streams => new ViewerStreams(plane, nodes);

class ViewerStreams implements Streams {
  readonly #plane: Plane;
  readonly #registry: StreamRegistry;
  readonly #viewers: OpenViewers;
  readonly #answers = new WeakMap<IncomingMessage, UpgradeAnswer>();
  readonly #context: StreamContext;
  readonly #watch: { stop(): void };
  readonly #server = createServer((request) => this.#answers.get(request));
  /** Relays viewers whose robot is connected to another node. */
  readonly #relays: Relays | undefined;
  readonly #shares: FleetShares;
  /** Limits the rate of frames from viewers, for each viewer and for each org. */
  readonly #pace: FrameRateLimiter;
  #draining = false;

  constructor(plane: Plane, nodes: Nodes | undefined) {
    this.#plane = plane;
    this.#registry = new StreamRegistry(plane);
    this.#viewers = new OpenViewers(this.#registry);
    this.#context = { plane, nodes, hub: new Hub(), viewers: this.#viewers.all, shells: new ShellRegistry(plane) };
    this.#watch = watchViewers(plane, this.#viewers.all);
    this.#relays = nodes && new Relays(plane, nodes);
    this.#shares = new FleetShares(plane);
    this.#pace = new FrameRateLimiter(plane.clock);
    nodes?.onUpgrade((request, socket, head) => void this.#open(request, socket, head, "node"));
  }

  routes(http: Http): void {
    plainRoutes(http, this.#plane);
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    if (streamOf(targetOf(request).path) === undefined) return false;
    socket.on("error", () => socket.destroy());
    void this.#open(request, socket, head, "viewer");
    return true;
  }

  async sweep(): Promise<void> {
    await this.#registry.sweep();
    await this.#context.shells.sweep();
    await sweepTickets(this.#plane);
  }

  async drain(): Promise<void> {
    this.#draining = true;
    this.#watch.stop();
    this.#shares.close();
    await Promise.all([this.#viewers.drain(this.#plane), this.#relays?.drain()]);
    await this.#context.shells.settled();
  }

  /** Handles an upgrade request. Serves the stream, or sends an error response. */
  async #open(request: IncomingMessage, socket: Duplex, head: Buffer, from: "viewer" | "node"): Promise<void> {
    const seen: Seen = {};
    const upgrade: UpgradeRequest = { request, socket, head, request_id: this.#plane.id("req") };
    const headers = (): Record<string, string> => ({
      "X-Request-Id": upgrade.request_id,
      "Cache-Control": "no-store",
      ...(seen.org_id === undefined ? {} : { "X-Service-Org-Id": seen.org_id }),
    });
    try {
      this.#refuseWhenDraining();
      if (from === "node") return await this.#openForNode(upgrade, seen, headers);
      const admitted = await admitViewer(this.#plane, request, seen);
      checkHandshake(request);
      if ((await this.#relays?.take(upgrade, admitted)) !== true) await this.#serveHere(upgrade, admitted, headers());
    } catch (error) {
      const { status, code, message, headers: extra } = toFault(this.#plane, error);
      if (status >= 500) this.#plane.log.error({ err: error, status }, "could not open a stream");
      refuseUpgrade(socket, status, code, message, { ...headers(), ...extra });
    }
  }

  /**
   * Serves a request of another node: a viewer that the other node has admitted, or the logs of a fleet. A viewer is never relayed to a
   * third node.
   */
  async #openForNode(upgrade: UpgradeRequest, seen: Seen, headers: () => Record<string, string>): Promise<void> {
    const { request, socket, head } = upgrade;
    const { path, query } = targetOf(request);
    if (path === FLEET_SHARE_PATH) return this.#shares.upgrade(request, socket, head, decodeHeader(request), query);
    const admission = decodeAdmission(request);
    upgrade.request_id = admission.request_id;
    const admitted = await readmit(this.#plane, request, admission, seen);
    checkHandshake(request);
    await this.#serveHere(upgrade, admitted, headers());
  }

  async #serveHere(
    { request, socket, head, request_id }: UpgradeRequest,
    admitted: Admitted,
    headers: Record<string, string>,
  ): Promise<void> {
    const open_stream = await this.#registry.opened(request, admitted, request_id);
    let is_open = false;
    this.#answers.set(request, { admitted, headers });
    if (!this.#draining && !socket.destroyed)
      this.#server.handleUpgrade(request, socket, head, (ws) => {
        is_open = true;
        const viewer = new Viewer(admitted, ws, socket, { request_id, pace: this.#pace });
        this.#viewers.add(viewer, open_stream);
        void serveViewer(this.#context, viewer, admitted);
      });
    if (is_open) return;
    // The connection was not upgraded, because the client has disconnected or the server is stopping.
    await this.#registry.closed(open_stream, endOf(this.#draining ? CLOSE.draining : undefined, CLOSED_ABNORMALLY));
    this.#refuseWhenDraining();
  }

  #refuseWhenDraining(): void {
    if (this.#draining) throw httpError(503, "the server is stopping", { "retry-after": "5" });
  }
}

function createServer(answerOf: (request: IncomingMessage) => UpgradeAnswer | undefined): WebSocketServer {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: VIEWER_MESSAGE_BYTES_MAX,
    maxFragments: VIEWER_FRAGMENTS_MAX,
    maxBufferedChunks: VIEWER_CHUNKS_MAX,
    handleProtocols: (offered, request) => {
      const subprotocol = answerOf(request)?.admitted.kind.subprotocol;
      return subprotocol !== undefined && offered.has(subprotocol) ? subprotocol : false;
    },
  });
  server.on("headers", (lines, request) => {
    for (const [name, value] of Object.entries(answerOf(request)?.headers ?? {})) lines.push(`${name}: ${value}`);
  });
  return server;
}

function plainRoutes(http: Http, plane: Plane): void {
  for (const path of Object.values({ ...streamPaths, ...fleetStreamPaths })) {
    http.methods.add("GET", path);
    http.app.get(path.replace(/\{(\w+)\}/g, ":$1"), { config: { route: "stream" } }, (request, reply) =>
      answerPlain(plane, request, reply),
    );
  }
}

/** Responds to a request for a stream's path that does not upgrade to a WebSocket. Throws the error that an upgrade would get, or 426. */
async function answerPlain(
  plane: Plane,
  request: { raw: IncomingMessage },
  reply: { header(name: string, value: string): unknown },
): Promise<never> {
  const seen: Seen = {};
  try {
    await admitViewer(plane, request.raw, seen);
  } finally {
    if (seen.org_id !== undefined) reply.header("x-service-org-id", seen.org_id);
  }
  throw httpError(426, "this path requires a WebSocket upgrade", { upgrade: "websocket", connection: "upgrade" });
}

async function serveViewer(context: StreamContext, viewer: Viewer, { start, ...admitted }: Admitted): Promise<void> {
  const { plane } = context;
  const { kind, robot_id, caller, decommissioned } = admitted;
  // This is a function, because the robot may connect or disconnect while the stored records are sent.
  const offline = (): boolean => kind.of === "robot" && plane.link.session(robot_id)?.org_id !== caller.org_id;
  const endWithoutRobot = (): void => {
    if (decommissioned) viewer.close(CLOSE.robot_removed, "robot removed");
    else if (offline()) viewer.close(CLOSE.agent_offline, "agent offline");
  };
  try {
    const too_many = tooMany(plane.settings.limits, context.viewers, viewer);
    if (too_many !== undefined) return viewer.close(CLOSE.too_many, too_many);
    if (kind.offline !== true) endWithoutRobot();
    if (viewer.open) await start(context, viewer);
    viewer.started = true;
    endWithoutRobot();
  } catch (error) {
    plane.log.error({ err: error, stream: kind.name }, "a stream failed");
    viewer.close(1011, "the server could not serve the stream");
  }
}
