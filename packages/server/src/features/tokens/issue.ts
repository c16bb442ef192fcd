import { roleAtLeast } from "@roamfleet/protocol";
import type { BodyOf, NewToken, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, highestRole } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, forbidden, notFound } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { createCredential, newSecret } from "./create.ts";
import { checkScopes } from "./scopes.ts";
import { findToken, lockToken, rotateToken } from "./store-manage.ts";
import { listOrgsOfUser } from "./store.ts";
import { statusOf, toWire } from "./wire.ts";

const HOUR_MS = 3_600_000;

/** Returns the highest role of a user in the org. 404 if the user is not a member. */
export async function requireMember(db: Db, org_id: string, user_id: string): Promise<NonNullable<ReturnType<typeof highestRole>>> {
  const role = highestRole((await listOrgsOfUser(db, user_id, org_id)).flatMap((grant) => grant.role ?? []));
  if (role === undefined) throw notFound("user", user_id);
  return role;
}

/**
 * Creates a token of the org or of one of its users. It is valid for this org only, so that an org's admin cannot use it to enter
 * other orgs of the user. Only this response contains the secret.
 */
export async function issueToken(plane: Plane, db: Db, caller: Caller, body: BodyOf<Routes["createToken"]>): Promise<NewToken> {
  const { org_id } = caller;
  const { label, role, scopes = [], expires_in_hours = 0, user_id } = body;
  if (!roleAtLeast(caller.role, role)) throw forbidden(`field role: a token cannot have a higher role than its creator, ${caller.role}`);
  return await db.transaction(async (tx) => {
    const of_user = user_id === undefined ? undefined : await requireMember(tx, org_id, user_id);
    if (of_user !== undefined && !roleAtLeast(of_user, role))
      throw badRequest(`field role: user ${user_id} has the role ${of_user}, less than ${role}`);
    const { id, secret } = await createCredential(tx, plane, {
      kind: user_id === undefined ? "org" : "user",
      org_id,
      ...(user_id === undefined ? {} : { user_id }),
      role,
      scopes: await checkScopes(tx, org_id, scopes),
      label,
      ...(expires_in_hours === 0 ? {} : { expires_at: new Date(plane.clock.now().getTime() + expires_in_hours * HOUR_MS) }),
      created_by: caller.actor,
    });
    const token = await findToken(tx, org_id, id);
    if (token === undefined) throw new Error("the created token was not found");
    announce(tx, plane, org_id, { kind: "token", id, change: "created" });
    return { ...toWire(token, plane.clock.now()), token: secret };
  });
}

/** Gives a token a new secret, which only this response contains. The old one stays valid for `overlap_seconds`. */
export async function rotate(plane: Plane, db: Db, org_id: string, id: string, overlap_seconds: number): Promise<NewToken> {
  return await db.transaction(async (tx) => {
    const now = plane.clock.now();
    const token = await lockToken(tx, org_id, id);
    if (token === undefined) throw notFound("token", id);
    const status = statusOf(token, now);
    if (status !== "active") throw conflict(`token ${id} is ${status}; create another one`);
    const { secret, hash, prefix } = newSecret(token.kind);
    const previous_until = new Date(now.getTime() + overlap_seconds * 1_000);
    announce(tx, plane, org_id, { kind: "token", id, change: "updated" });
    return { ...toWire(await rotateToken(tx, org_id, id, { hash, prefix, previous_until, at: now }), now), token: secret };
  });
}
