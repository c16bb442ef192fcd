import type { Org } from "@robofleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { OrgRow } from "./store.ts";

export const toWire = ({ id, name, status, created_at, updated_at }: OrgRow): Org => ({
  id,
  name,
  status,
  created_at: wireTime(created_at),
  updated_at: wireTime(updated_at),
});
