import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { ORG_SUSPENDED } from "./identity.ts";
import { listOnlineOfSuspended } from "./store-presence.ts";

/** Published to all nodes when an org was suspended. */
export const HINT_SUSPENDED = "rf.orgs.suspended";
/** Interval in case the hint is lost, and for robots that were being admitted at that moment. */
const LOOK_EVERY_MS = 30_000;

/** Closes the links of robots whose org is suspended. Each node handles its own links. */
export function startSuspensionWatch(plane: Plane): { stop(): Promise<void> } {
  const watch = background(plane, "suspended orgs", LOOK_EVERY_MS, async () => {
    for (const { id } of await listOnlineOfSuspended(plane.db, plane.node)) plane.link.session(id)?.close(CLOSE.role_lost, ORG_SUSPENDED);
  });
  const subscriptions = [plane.bus.subscribe(HINT_SUSPENDED, () => watch.wake()), plane.bus.onGap(() => watch.wake())];
  return {
    stop: async () => {
      subscriptions.forEach((unsubscribe) => unsubscribe());
      await watch.stop();
    },
  };
}
