import { ROLES } from "@roamfleet/protocol";
import type { User } from "@roamfleet/protocol/routes";
import { highestRole } from "../../kernel/caller.ts";
import { wireTime } from "../../kernel/time.ts";
import type { UserRow } from "./store.ts";

export const toWire = (user: UserRow): User => ({
  id: user.id,
  email: user.email,
  name: user.name,
  role: highestRole(user.grants.map(({ role }) => role)) ?? ROLES[0],
  grants: user.grants
    .toSorted((a, b) => ROLES.indexOf(b.role) - ROLES.indexOf(a.role))
    .map(({ role, scopes }) => ({ role, scopes: [...scopes] })),
  last_seen_at: wireTime(user.last_seen_at),
  created_at: wireTime(user.created_at),
  updated_at: wireTime(user.updated_at),
});
