import type { Fleet } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { FleetRow } from "./store.ts";

export const toWire = (fleet: FleetRow): Fleet => ({
  id: fleet.id,
  name: fleet.name,
  site_id: fleet.site_id,
  robot_count: fleet.robot_count,
  online_count: fleet.online_count,
  desired: Object.fromEntries(Object.entries(fleet.desired).map(([app, { id, tag }]) => [app, { id, tag }])),
  config_revision: fleet.config_revision,
  follow: fleet.follow,
  created_at: wireTime(fleet.created_at),
  updated_at: wireTime(fleet.updated_at),
});
