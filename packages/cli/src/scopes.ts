import { ROLES, type Role } from "@roamfleet/protocol";
import type { Body } from "@roamfleet/sdk";
import { type Command, Option } from "commander";
import { collect } from "./command.ts";
import type { Context } from "./context.ts";
import { relative } from "./duration.ts";

type Scope = Body<"getMe">["data"]["scopes"][number];
type User = Body<"getUser">["data"];
type Token = Body<"getToken">["data"];

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

/** Returns undefined if no scope was given: an update keeps the current scopes, and a new object covers the whole org. */
export function scopesOf({ site = [], fleet = [] }: RoleOptions): Scope[] | undefined {
  if (site.length + fleet.length === 0) return undefined;
  return [...site.map((site_id) => ({ site_id })), ...fleet.map((fleet_id) => ({ fleet_id }))];
}

export const scopesText = (scopes: readonly Scope[]): string =>
  scopes.length === 0 ? "the whole org" : scopes.map(({ site_id, fleet_id }) => site_id ?? fleet_id).join(", ");

export function showUser({ out, now }: Context, user: User): void {
  out.details([
    ["Id", user.id],
    ["Name", user.name],
    ["E-mail", user.email],
    ...user.grants.map(({ role, scopes }) => ["Role", `${role} of ${scopesText(scopes)}`] as const),
    ["Last seen", relative(user.last_seen_at, now())],
    ["Added", relative(user.created_at, now())],
  ]);
}

export function showToken({ out, now }: Context, token: Token, secret?: string | null): void {
  out.details([
    ["Id", token.id],
    ["Label", token.label ?? undefined],
    ["Token", secret == null ? `${token.prefix}…` : out.paint("strong", secret)],
    ["Status", out.status(token.status)],
    ["Role", `${token.role} of ${scopesText(token.scopes)}`],
    ["User", token.user_id ?? undefined],
    ["Expires", relative(token.expires_at, now())],
    ["Last used", relative(token.last_used_at, now())],
    ["Revoked", token.revoked_at === null ? undefined : relative(token.revoked_at, now())],
    [
      "Created",
      `${relative(token.created_at, now())}${token.created_by === null ? "" : ` by ${token.created_by.name ?? token.created_by.type}`}`,
    ],
  ]);
}
