import { defineRoute } from "./route.ts";

/** What a change can be of. */
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

/** Data of an event `change`: that something is otherwise, not how. Whoever shows it reads it again. */
export interface Change {
  kind: ChangeKind;
  /** Of what changed; of a config schema its namespace. */
  id: string;
  /** `created`, `updated`, `removed`, or which side of it: `moved`, `presence`, `health`, `config`, `release`, `status`, `progress`, `waves`, `targets`. */
  change: string;
  robot_id?: string;
  fleet_id?: string;
  site_id?: string;
  /** Where a robot was before it was moved. */
  from_fleet_id?: string;
  from_site_id?: string;
  /** Of a target: the deployment that it is of. */
  deployment_id?: string;
  status?: string;
}

export const eventRoutes = {
  streamEvents: defineRoute("streamEvents", {
    summary:
      "Changes in the org as they happen, as server-sent events: ready, change, beat, lost (read again what you show), end. Last-Event-ID resumes a stream that broke off",
    tag: "Events",
    access: "viewer",
    responses: { 200: null },
    produces: "text/event-stream",
  }),
};
