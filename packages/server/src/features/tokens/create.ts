import { randomBytes } from "node:crypto";
import type { Clock, IdSource } from "@roamfleet/clock";
import { ID_PREFIXES, type Role, SECRET_PREFIXES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { secretHash } from "../../kernel/proof.ts";
import { insertCredential, type Scopes } from "./store.ts";

const SECRET_BYTES = 32;
/** Enough to recognize a token in a list, far too few to guess the rest. */
const SHOWN_CHARACTERS = 12;

/** Creates the secret of a token. Only its hash and prefix are stored. */
export function newSecret(kind: "org" | "user"): { secret: string; hash: Buffer; prefix: string } {
  const secret = SECRET_PREFIXES[kind === "org" ? "org_token" : "user_token"] + randomBytes(SECRET_BYTES).toString("hex");
  return { secret, hash: secretHash(secret), prefix: secret.slice(0, SHOWN_CHARACTERS) };
}

export interface CredentialOptions {
  /** `org`: a token of the org itself. `user`: a token with at most the user's permissions. */
  kind: "org" | "user";
  /** Only for a user's token: valid for every org of the user, with org_id as the default. Otherwise it is valid for org_id only. */
  every_org?: boolean;
  org_id: string;
  user_id?: string;
  role: Role;
  scopes?: Scopes;
  label?: string;
  expires_at?: Date;
  created_by?: Actor;
}

/** Creates a portal token. Returns its secret, which is not available later because only its hash is stored. */
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
