import type { FastifyReply, FastifyRequest } from "fastify";
import { authenticateAgain, type Credentials, proofOf } from "./authenticate.ts";
import type { Caller } from "./caller.ts";
import { Fault } from "./fault.ts";
import type { KernelPlane } from "./kernel-plane.ts";
import { holdProof } from "./proof.ts";

/** A token is remembered for a second, so that a revocation is seen within one and a half. */
const CHECK_EVERY_MS = 500;

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
  if (proof === undefined) return;
  const held = holdProof(proof);
  const timer = plane.clock.every(CHECK_EVERY_MS, async () => {
    try {
      await check(await authenticateAgain(plane, held, org_id));
    } catch (error) {
      // Without an answer of the database nothing is known of the token: the transfer continues.
      if (!(error instanceof Fault) || error.status >= 500) return;
      timer.cancel();
      request.raw.socket.destroy();
    }
  });
  reply.raw.once("close", () => timer.cancel());
}
