import type { Plane } from "./context.ts";
import { compareLinks, sweepDeadNodes } from "./features/robots/index.ts";
import type { Streams } from "./features/streams/index.ts";
import { background } from "./kernel/background.ts";
import { isolateEach } from "./kernel/in-halves.ts";
import { deleteLongOver, type Lease } from "./link/index.ts";

const DEAD_SWEEP_EVERY_MS = 5_000;
/** Interval that compensates for lost hints. */
const LINKS_COMPARED_EVERY_MS = 15_000;

export interface LeaseWatch {
  lease: Lease;
  fail: (why: string) => void;
}

/** Starts the work that a node does as one of several. */
export async function watchNodes(plane: Plane, streams: Streams, { lease, fail }: LeaseWatch): Promise<{ stop(): Promise<void> }[]> {
  const parts = [() => sweepDeadNodes(plane), () => streams.sweep(), () => deleteLongOver(plane.db)];
  const sweep = async (): Promise<void> => {
    const failures = await isolateEach(parts, plane.db_errors.isOutage, (part) => part());
    if (failures !== undefined) throw failures.error;
  };
  const dead = background(plane, "dead nodes", DEAD_SWEEP_EVERY_MS, sweep);
  dead.wake();
  await dead.settled();
  const links = background(plane, "links", LINKS_COMPARED_EVERY_MS, () => compareLinks(plane));
  const unsubscribe = plane.bus.onGap(() => links.wake());
  const kept = lease.keep({
    bus: plane.bus,
    changed: () => {
      dead.wake();
      links.wake();
    },
    cutOff: () => plane.link.sendAway(plane.link.sessions(), "the server is isolated from the others"),
    superseded: fail,
  });
  return [kept, dead, links, { stop: async () => unsubscribe() }];
}
