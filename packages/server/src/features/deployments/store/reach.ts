import { type Caller, seesWholeOrg, visible } from "../../../kernel/caller.ts";
import { sql, type Statement } from "../../../kernel/sql.ts";

const EVERYTHING = sql``;

/** ` and …`: of deployments only those whose robot or fleet the caller sees; one of a fleet that is gone is the whole org's. */
export const reachedDeployments = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and (exists (
        -- reads: robot
        select from robot r where r.org_id = deployment.org_id and r.id = deployment.robot_id ${visible(caller, "r.site_id", "r.fleet_id")})
      or exists (
        -- reads: fleet
        select from fleet f where f.org_id = deployment.org_id and f.id = deployment.fleet_id ${visible(caller, "f.site_id", "f.id")}))`;

/** The same of targets: a robot that was moved away since takes its target along. */
export const reachedTargets = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and exists (
        -- reads: robot
        select from robot r where r.org_id = deployment_target.org_id and r.id = deployment_target.robot_id ${visible(caller, "r.site_id", "r.fleet_id")})`;

/** The same of events; those of the deployment itself name no robot. */
export const reachedEvents = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and (robot_id is null or exists (
        -- reads: robot
        select from robot r where r.org_id = deployment_event.org_id and r.id = deployment_event.robot_id ${visible(caller, "r.site_id", "r.fleet_id")}))`;
