import { type Role, roleAtLeast } from "@robofleet/protocol";
import type { Actor } from "@robofleet/protocol/routes";
import { forbidden } from "./fault.ts";

/** Who calls: a portal token, resolved to one org. */
export interface Caller {
  org_id: string;
  role: Role;
  /** Sites and fleets that the role is limited to; empty is the whole org. */
  scopes: readonly { site_id?: string; fleet_id?: string }[];
  actor: Actor;
  token_id: string;
  /** Every org that the token may speak for. */
  orgs: readonly { org_id: string; role: Role; is_default: boolean }[];
}

/** A robot that signed its request. */
export interface RobotCaller {
  org_id: string;
  robot_id: string;
}

export const SYSTEM: Actor = { type: "system", id: null, name: null };

export const robotActor = (robot_id: string): Actor => ({ type: "robot", id: robot_id, name: null });

export function requireRole(caller: Caller, needed: Role): void {
  if (!roleAtLeast(caller.role, needed)) throw forbidden(`this needs the role ${needed}; the token has ${caller.role}`);
}
