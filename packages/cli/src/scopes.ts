import { ROLES, type Role } from "@roamfleet/protocol";
import type { Body } from "@roamfleet/sdk";
import { type Command, Option } from "commander";
import { collect } from "./command.ts";

type Scope = Body<"getMe">["data"]["scopes"][number];

export interface RoleOptions {
  role?: Role;
  site?: string[];
  fleet?: string[];
}

/** Adds the options for a role and the sites and fleets that it is limited to. */
export const roleOptions = (command: Command, what: string, options: { mandatory: boolean }): Command =>
  command
    .addOption(new Option("--role <role>", `Role of ${what}`).choices(ROLES).makeOptionMandatory(options.mandatory))
    .option("--site <id>", "Limit to this site (repeatable; default: the whole org)", collect)
    .option("--fleet <id>", "Limit to this fleet (repeatable)", collect);

/**
 * Returns the given sites and fleets as scopes; undefined if there are none: an update then keeps the current scopes, and a new object
 * covers the whole org.
 */
export function scopesOf({ site = [], fleet = [] }: RoleOptions): Scope[] | undefined {
  if (site.length + fleet.length === 0) return undefined;
  return [...site.map((site_id) => ({ site_id })), ...fleet.map((fleet_id) => ({ fleet_id }))];
}

export const scopesText = (scopes: readonly Scope[]): string =>
  scopes.length === 0 ? "the whole org" : scopes.map(({ site_id, fleet_id }) => site_id ?? fleet_id).join(", ");
