import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { Maybe, Shape } from "./shapes.ts";

/** Kinds of objects that change events refer to. */
export const CHANGE_KINDS = [
  "robot",
  "fleet",
  "site",
  "release",
  "deployment",
  "target",
  "config_deployment",
  "config_target",
  "config",
  "config_schema",
  "enrollment_key",
  "timeline",
  "shell_session",
  "user",
  "token",
  "org",
  "signing_keys",
] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

/** Data of a `change` event: it states that an object changed, not how. Clients read the object again. */
export interface Change {
  kind: ChangeKind;
  /** Id of the changed object; for a config schema its namespace. */
  id: string;
  /**
   * `created`, `updated`, `removed`, or the changed aspect: `moved`, `presence`, `health`, `config`, `release`, `status`, `progress`,
   * `waves`, `targets`.
   */
  change: string;
  robot_id?: string;
  fleet_id?: string;
  site_id?: string;
  /** The robot's fleet before it was moved. */
  from_fleet_id?: string;
  from_site_id?: string;
  /** The deployment of a target. */
  deployment_id?: string;
  status?: string;
}

/**
 * In an event `changes`, in place of more changes of one kind than are sent one by one: how many, and the fields that all of them share.
 * Without `id`, `change` or the id of a place or deployment, any object, aspect, place or deployment may have changed.
 */
export interface ChangeSummary extends Partial<Change> {
  kind: ChangeKind;
  count: number;
}

export const eventRoutes = {
  streamEvents: defineRoute("streamEvents", {
    summary:
      "Stream changes in the org as server-sent events: ready, change, beat, lost (reload all displayed data), end. Last-Event-ID resumes an interrupted stream",
    tag: "Events",
    access: "viewer",
    query: Shape({
      coalesce: Maybe(
        Type.Boolean({
          description:
            "Events `changes` in place of `change`: lists of the newest change of each object, at most four a second, with one summary in place of many changes of a kind",
        }),
      ),
    }),
    responses: { 200: null },
    produces: "text/event-stream",
  }),
};
