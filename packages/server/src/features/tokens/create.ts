import { hash, randomBytes } from "node:crypto";
import type { Clock, IdSource } from "@robofleet/clock";
import { ID_PREFIXES, type Role, SECRET_PREFIXES } from "@robofleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { insertCredential, type Scopes } from "./store.ts";

const SECRET_BYTES = 32;
/** Enough to recognise a token in a list, far too little to guess the rest. */
const SHOWN_CHARACTERS = 12;

export const secretHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

export interface CredentialOptions {
  /** `org`: bound to its org. `user`: speaks for every org of the user, org_id being the default one. */
  kind: "org" | "user";
  org_id: string;
  user_id?: string;
  role: Role;
  scopes?: Scopes;
  label?: string;
  expires_at?: Date;
  /** Id of whoever made it. */
  created_by?: string;
}

/** Makes a portal token. `secret` is what its holder sends; only its hash is kept, so this is the one time it is seen. */
export async function createCredential(
  db: Db,
  plane: { id: IdSource; clock: Clock },
  options: CredentialOptions,
): Promise<{ id: string; secret: string }> {
  const id = plane.id(ID_PREFIXES.token);
  const secret = SECRET_PREFIXES[options.kind === "org" ? "org_token" : "user_token"] + randomBytes(SECRET_BYTES).toString("hex");
  await insertCredential(db, {
    id,
    hash: secretHash(secret),
    kind: options.kind,
    org_id: options.org_id,
    user_id: options.user_id ?? null,
    role: options.role,
    scopes: options.scopes ?? [],
    label: options.label ?? null,
    prefix: secret.slice(0, SHOWN_CHARACTERS),
    expires_at: options.expires_at ?? null,
    created_by: options.created_by ?? null,
    at: plane.clock.now(),
  });
  return { id, secret };
}
