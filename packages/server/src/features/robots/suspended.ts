import { CLOSE } from "@robofleet/protocol";
import type { Plane } from "../../context.ts";
import { background, type Background } from "../../kernel/background.ts";
import { ORG_SUSPENDED } from "./identity.ts";
import { listOnlineOfSuspended } from "./store-presence.ts";

/** A suspended org is out within 2 s, tokens and robots alike. */
const LOOK_EVERY_MS = 1_000;

/**
 * Closes the links of robots whose org is suspended, those too that were being let in at that moment. It asks the
 * database instead of waiting to be told: a message may be lost, and each node holds links of its own.
 */
export const startSuspensionWatch = (plane: Plane): Background =>
  background(plane, "suspended orgs", LOOK_EVERY_MS, async () => {
    for (const { id } of await listOnlineOfSuspended(plane.db, plane.node)) plane.link.session(id)?.close(CLOSE.role_lost, ORG_SUSPENDED);
  });
