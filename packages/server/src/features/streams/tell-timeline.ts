import type { Plane } from "../../context.ts";
import { recordTimeline } from "../timeline/index.ts";
import type { Viewer } from "./viewer.ts";

/** Writes what a viewer did onto the timeline of its robot. A stream does not end because that cannot be written; the audit knows of it. */
export async function tellTimeline(
  plane: Plane,
  { admitted }: Viewer,
  entry: { kind: string; summary: string; data: Record<string, unknown> },
): Promise<void> {
  const { caller, robot_id } = admitted;
  const { org_id, actor } = caller;
  try {
    await recordTimeline(plane.db.forOrg(org_id), plane, { org_id, robot_id, actor, ...entry });
  } catch (error) {
    plane.log.error({ err: error, kind: entry.kind }, "a timeline entry of a stream could not be written");
  }
}
