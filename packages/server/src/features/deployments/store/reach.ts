import { type Caller, seesWholeOrg, visible } from "../../../kernel/caller.ts";
import { sql, type Statement } from "../../../kernel/sql.ts";

const EVERYTHING = sql``;

/** ` and …`: restricts deployments to robots and fleets that the caller may see; those of a deleted fleet need access to the whole org. */
export const reachedDeployments = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and (exists (
        -- reads: robot
        select from robot r where r.org_id = deployment.org_id and r.id = deployment.robot_id ${visible(caller, "r.site_id", "r.fleet_id")})
      or exists (
        -- reads: fleet
        select from fleet f where f.org_id = deployment.org_id and f.id = deployment.fleet_id ${visible(caller, "f.site_id", "f.id")}))`;

/** The same for targets, by the current place of their robots. */
export const reachedTargets = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and exists (
        -- reads: robot
        select from robot r where r.org_id = deployment_target.org_id and r.id = deployment_target.robot_id ${visible(caller, "r.site_id", "r.fleet_id")})`;

/** The same for events; those of the deployment itself name no robot and stay visible. */
export const reachedEvents = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and (robot_id is null or exists (
        -- reads: robot
        select from robot r where r.org_id = deployment_event.org_id and r.id = deployment_event.robot_id ${visible(caller, "r.site_id", "r.fleet_id")}))`;
