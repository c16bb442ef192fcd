import type { Site } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { SiteRow } from "./store.ts";

export const toWire = ({ id, name, robot_count, online_count, created_at, updated_at }: SiteRow): Site => ({
  id,
  name,
  robot_count,
  online_count,
  created_at: wireTime(created_at),
  updated_at: wireTime(updated_at),
});
