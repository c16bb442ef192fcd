import type { EnrollmentKey } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { KeyRow, KeyStatus } from "./store.ts";

/** Returns why the key cannot be used, or `active`. A revocation takes precedence over expiry and use. */
export function statusOf({ revoked_at, expires_at, max_uses, uses }: KeyRow, now: Date): KeyStatus {
  if (revoked_at !== null) return "revoked";
  if (expires_at !== null && expires_at <= now) return "expired";
  return max_uses > 0 && uses >= max_uses ? "exhausted" : "active";
}

export const toWire = (key: KeyRow, now: Date): EnrollmentKey => ({
  id: key.id,
  label: key.label,
  site_id: key.site_id,
  fleet_id: key.fleet_id,
  robot_id: key.robot_id,
  max_uses: key.max_uses,
  uses: key.uses,
  trusted: key.trusted,
  expires_at: wireTime(key.expires_at),
  status: statusOf(key, now),
  revoked_at: wireTime(key.revoked_at),
  created_by: key.created_by,
  created_at: wireTime(key.created_at),
  updated_at: wireTime(key.updated_at),
});
