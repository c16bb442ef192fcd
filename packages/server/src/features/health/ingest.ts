import type { Health } from "@robofleet/protocol/link";
import type { Plane } from "../../context.ts";
import type { Session } from "../../link/index.ts";
import { putSnapshot } from "./store.ts";

/** Keeps what a robot measured. Not acknowledged: the next snapshot makes up for a lost one. */
export async function ingestHealth(plane: Plane, { org_id, robot_id }: Session, { snapshot }: Health): Promise<void> {
  await putSnapshot(
    plane.db.forOrg(org_id),
    org_id,
    robot_id,
    { ...snapshot, at: sane(snapshot.at, plane.clock.now()) },
    plane.clock.now(),
  );
}

/** A robot whose clock tells nonsense gets the time of arrival. */
function sane(at: string, now: Date): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? now.toISOString() : time.toISOString();
}
