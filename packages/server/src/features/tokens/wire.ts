import type { Token } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { TokenRow, TokenStatus } from "./store-manage.ts";

/** Derives the status; `revoked` takes precedence over `expired`. */
export function statusOf({ revoked_at, expires_at }: TokenRow, now: Date): TokenStatus {
  if (revoked_at !== null) return "revoked";
  return expires_at !== null && expires_at <= now ? "expired" : "active";
}

export const toWire = (token: TokenRow, now: Date): Token => ({
  id: token.id,
  label: token.label,
  role: token.role,
  scopes: [...token.scopes],
  prefix: token.prefix,
  user_id: token.user_id,
  status: statusOf(token, now),
  expires_at: wireTime(token.expires_at),
  last_used_at: wireTime(token.last_used_at),
  revoked_at: wireTime(token.revoked_at),
  created_by: token.created_by,
  created_at: wireTime(token.created_at),
  updated_at: wireTime(token.updated_at),
});
