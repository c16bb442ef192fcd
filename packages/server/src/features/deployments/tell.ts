import type { TargetStatus } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { announce, type AnnouncedChange } from "../events/index.ts";
import type { DeploymentRow, EventRow } from "./store/rows.ts";

/** Publishes each event of a deployment as a change of one of its targets, or of the deployment. */
export function announceEvents(
  tx: Db,
  engine: Pick<Plane, "bus">,
  { org_id, id, kind }: Pick<DeploymentRow, "org_id" | "id" | "kind">,
  events: readonly Pick<EventRow, "kind" | "robot_id" | "status" | "target_status" | "data">[],
): void {
  announce(
    tx,
    engine,
    org_id,
    events.map((event): AnnouncedChange => {
      const { robot_id, target_status, status, data } = event;
      if (robot_id === null || target_status === null || typeof data.target_id !== "string")
        return deploymentChange({ id, kind }, changeOf(event.kind), status);
      return targetChange({ kind, id: data.target_id, robot_id, deployment_id: id, status: target_status }, "status");
    }),
  );
}

/** A change of one target. */
export const targetChange = (
  target: { kind: DeploymentRow["kind"]; id: string; robot_id: string; deployment_id: string; status: TargetStatus },
  change: string,
): AnnouncedChange => ({ ...target, kind: target.kind === "release" ? "target" : "config_target", change });

const changeOf = (kind: string): string => (kind === "deployment.note" ? "updated" : "status");

/** A change of the deployment. */
export const deploymentChange = (
  { id, kind }: Pick<DeploymentRow, "id" | "kind">,
  change: string,
  status?: DeploymentRow["status"],
): AnnouncedChange => ({
  kind: kind === "release" ? "deployment" : "config_deployment",
  id,
  change,
  ...(status === undefined ? {} : { status }),
});
