import type { Plane } from "../../context.ts";
import { recordTimeline } from "../timeline/index.ts";
import type { Viewer } from "./viewer.ts";

/** Writes an action of a viewer to the timeline of its robot. A failure is logged and does not end the stream, which is in the audit. */
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
    plane.log.error({ err: error, kind: entry.kind }, "could not write a timeline entry of a stream");
  }
}
