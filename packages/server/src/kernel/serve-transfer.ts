import type { Socket } from "node:net";
import type { Timer } from "@roamfleet/clock";
import type { FastifyReply, FastifyRequest } from "fastify";
import { authenticateAgain, type Credentials, proofOf } from "./authenticate.ts";
import { type Caller, hashProof, type RobotCaller } from "./caller.ts";
import { Fault } from "./fault.ts";
import { type KernelPlane, planeState } from "./kernel-plane.ts";

/** Interval at which the access of a transfer's caller is checked. Tokens are cached for 1 s, so a revocation takes effect within 1.5 s. */
const CHECK_EVERY_MS = 500;
/** Interval at which the access of downloading robots is checked. One query checks all of them. */
const CHECK_ROBOTS_EVERY_MS = 1_000;

/**
 * Aborts a long transfer (a download, an export, an upload) when its caller loses access: the token or session ended, or the role or scope
 * no longer suffices. In that case `check` throws. The connection is closed, because an error cannot be sent once the response has started.
 */
export function watchTransfer(
  plane: KernelPlane,
  { credentials, org_id, check }: { credentials: Credentials; org_id: string; check: (caller: Caller) => Promise<void> },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const proof = proofOf(credentials);
  // If the client has already disconnected, starts no timer, because no further close event would cancel it.
  if (proof === undefined || reply.raw.destroyed) return;
  const held = hashProof(proof);
  const timer = plane.clock.every(CHECK_EVERY_MS, async () => {
    try {
      await check(await authenticateAgain(plane, held, org_id));
    } catch (error) {
      // When the database is unreachable, the token's state is unknown: the transfer continues.
      if (!(error instanceof Fault) || error.status >= 500) return;
      // The transfer may have ended during the check. Its keep-alive connection may already serve the next request.
      if (reply.raw.destroyed) return;
      timer.cancel();
      request.raw.socket.destroy();
    }
  });
  reply.raw.once("close", () => timer.cancel());
}

/** Running downloads of robots. */
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
      // When the database is unreachable, the robots' state is unknown: their downloads continue.
      this.#plane.log.warn({ err: error }, "could not check which downloading robots have lost access");
    }
  }
}

const transfersOf = planeState((plane: KernelPlane) => new RobotTransfers(plane));

/** Aborts a robot's download soon after the robot is removed, replaced or quarantined, or its org suspended. */
export function watchRobotTransfer(plane: KernelPlane, robot: RobotCaller, request: FastifyRequest, reply: FastifyReply): void {
  if (reply.raw.destroyed) return;
  transfersOf(plane).add(robot, request.raw.socket, reply);
}
