import type { Org, OwnOrg } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { OrgRow } from "./store.ts";

export const toWire = ({ id, name, email, status, created_at, updated_at }: OrgRow): Org => ({
  id,
  name,
  email,
  status,
  created_at: wireTime(created_at),
  updated_at: wireTime(updated_at),
});

export const toOwnWire = ({ id, name, status, settings, created_at, updated_at }: OrgRow): OwnOrg => ({
  id,
  name,
  status,
  settings: { deployment_expires_days: settings.deployment_expires_days ?? null },
  created_at: wireTime(created_at),
  updated_at: wireTime(updated_at),
});
