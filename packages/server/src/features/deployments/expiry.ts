import type { Rollout } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { parseTime } from "../../kernel/time.ts";
import { expiryDays } from "./store/deployments.ts";
import type { CreateContext } from "./transition.ts";

const HOUR_MS = 3_600_000;
const HOURS_PER_DAY = 24;

/** Returns when a deployment that begins at `from` expires: by its policy, else by the org's setting, else by the server's. */
export async function expiresAt(
  db: Db,
  engine: Pick<CreateContext, "settings">,
  org_id: string,
  rollout: Rollout,
  from: Date,
): Promise<Date> {
  if (rollout.expires_at !== undefined) return parseTime(rollout.expires_at);
  const days = await expiryDays(db, org_id);
  const hours = days === null ? engine.settings.limits.deployment_expiry_hours : days * HOURS_PER_DAY;
  return new Date(from.getTime() + hours * HOUR_MS);
}
