import type { Socket } from "node:net";
import type { Timer } from "@roamfleet/clock";
import type { FastifyReply, FastifyRequest } from "fastify";
import { authenticateAgain, type Credentials, proofOf } from "./authenticate.ts";
import type { Caller, RobotCaller } from "./caller.ts";
import { Fault } from "./fault.ts";
import type { KernelPlane } from "./kernel-plane.ts";
import { holdProof } from "./proof.ts";

/** A token is remembered for a second, so that a revocation is seen within one and a half. */
const CHECK_EVERY_MS = 500;
/** One query for all robots that download. */
const CHECK_ROBOTS_EVERY_MS = 1_000;

/**
 * Cuts a long transfer (a download, an export, an upload) when its caller may not make it any more: the token or session ended, or
 * the role or scope no longer suffices. `check` throws then. The connection is closed, because the status was sent already.
 */
export function watchTransfer(
  plane: KernelPlane,
  { credentials, org_id, check }: { credentials: Credentials; org_id: string; check: (caller: Caller) => Promise<void> },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const proof = proofOf(credentials);
  // A response that has closed already, of a client that left meanwhile, emits no further close.
  if (proof === undefined || reply.raw.destroyed) return;
  const held = holdProof(proof);
  const timer = plane.clock.every(CHECK_EVERY_MS, async () => {
    try {
      await check(await authenticateAgain(plane, held, org_id));
    } catch (error) {
      // Without an answer of the database nothing is known of the token: the transfer continues.
      if (!(error instanceof Fault) || error.status >= 500) return;
      // The transfer may have ended during the check: a connection that is kept alive serves the next request by now.
      if (reply.raw.destroyed) return;
      timer.cancel();
      request.raw.socket.destroy();
    }
  });
  reply.raw.once("close", () => timer.cancel());
}

/** Downloads of robots that are under way. */
class RobotTransfers {
  readonly #plane: KernelPlane;
  readonly #open = new Map<FastifyReply, RobotCaller & { socket: Socket }>();
  #timer: Timer | undefined;

  constructor(plane: KernelPlane) {
    this.#plane = plane;
  }

  add(robot: RobotCaller, socket: Socket, reply: FastifyReply): void {
    this.#open.set(reply, { ...robot, socket });
    this.#timer ??= this.#plane.clock.every(CHECK_ROBOTS_EVERY_MS, () => this.#check());
    reply.raw.once("close", () => {
      this.#open.delete(reply);
      if (this.#open.size > 0) return;
      this.#timer?.cancel();
      this.#timer = undefined;
    });
  }

  async #check(): Promise<void> {
    try {
      for (const { socket } of await this.#plane.authenticators.refusedRobots([...this.#open.values()])) socket.destroy();
    } catch (error) {
      // Without an answer of the database nothing is known of the robots: their downloads continue.
      this.#plane.log.warn({ err: error }, "could not check which downloading robots are refused");
    }
  }
}

const transfers_by_plane = new WeakMap<KernelPlane, RobotTransfers>();

/** Cuts the download of a robot soon after the robot is removed, replaced, held, or its org suspended. */
export function watchRobotTransfer(plane: KernelPlane, robot: RobotCaller, request: FastifyRequest, reply: FastifyReply): void {
  if (reply.raw.destroyed) return;
  let transfers = transfers_by_plane.get(plane);
  if (transfers === undefined) transfers_by_plane.set(plane, (transfers = new RobotTransfers(plane)));
  transfers.add(robot, request.raw.socket, reply);
}
