import { randomBytes } from "node:crypto";
import type { Clock, IdSource } from "@roamfleet/clock";
import { ID_PREFIXES, type Role, SECRET_PREFIXES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Scope, type Scopes, secretHash } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, Fault, printable } from "../../kernel/fault.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { insertCredential } from "./store.ts";

const SECRET_BYTES = 32;
/** Number of leading characters of a secret that lists show. They are enough to recognize a token, and far too few to guess the rest. */
const SHOWN_CHARACTERS = 12;

/** Creates the secret of a token. Only its hash and prefix are stored. */
export function newSecret(kind: "org" | "user"): { secret: string; hash: Buffer; prefix: string } {
  const secret = SECRET_PREFIXES[kind === "org" ? "org_token" : "user_token"] + randomBytes(SECRET_BYTES).toString("hex");
  return { secret, hash: secretHash(secret), prefix: secret.slice(0, SHOWN_CHARACTERS) };
}

export interface CredentialOptions {
  /** `org`: a token that belongs to the org itself. `user`: a token that belongs to a user, and has at most that user's permissions. */
  kind: "org" | "user";
  /** Whether a user's token is valid for every org of the user, with `org_id` as the default. If false, it is valid for `org_id` only. */
  every_org?: boolean;
  org_id: string;
  user_id?: string;
  role: Role;
  scopes?: Scopes;
  label?: string;
  expires_at?: Date;
  created_by?: Actor;
}

/** Creates an API token. Returns its secret, which cannot be read later because only its hash is stored. */
export async function createCredential(
  db: Db,
  plane: { id: IdSource; clock: Clock },
  options: CredentialOptions,
): Promise<{ id: string; secret: string }> {
  const id = plane.id(ID_PREFIXES.token);
  const { secret, hash, prefix } = newSecret(options.kind);
  await insertCredential(db, {
    id,
    hash,
    kind: options.kind,
    org_id: options.org_id,
    user_id: options.user_id ?? null,
    every_org: options.every_org ?? false,
    role: options.role,
    scopes: options.scopes ?? [],
    label: options.label ?? null,
    prefix,
    expires_at: options.expires_at ?? null,
    created_by: options.created_by ?? null,
    at: plane.clock.now(),
  });
  return { id, secret };
}

/**
 * Returns the scopes without duplicates. Throws 400 with the name of the field unless each scope is one site or one fleet of the org.
 * Inside a transaction, locks these sites and fleets against deletion.
 */
export async function checkScopes(db: Db, org_id: string, scopes: Scopes, field = "scopes"): Promise<Scopes> {
  const known = new Map<string, Scope>();
  for (const [i, { site_id, fleet_id }] of scopes.entries()) {
    const at = `${field}.${i}`;
    if (site_id !== undefined && fleet_id === undefined) {
      await orBadRequest(`${at}.site_id`, "site", site_id, requireSite(db, org_id, site_id));
      known.set(`site ${site_id}`, { site_id });
    } else if (fleet_id !== undefined && site_id === undefined) {
      await orBadRequest(`${at}.fleet_id`, "fleet", fleet_id, requireFleet(db, org_id, fleet_id));
      known.set(`fleet ${fleet_id}`, { fleet_id });
    } else throw badRequest(`field ${at} must name exactly one of site_id and fleet_id`);
  }
  return [...known.values()];
}

async function orBadRequest(field: string, kind: string, id: string, found: Promise<unknown>): Promise<void> {
  try {
    await found;
  } catch (error) {
    if (error instanceof Fault && error.code === "not_found") throw badRequest(`field ${field}: ${kind} ${printable(id)} does not exist`);
    throw error;
  }
}
