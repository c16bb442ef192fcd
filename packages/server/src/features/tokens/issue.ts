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

/** The highest role that a user has in the org; 404 for somebody who is not in it. */
export async function requireMember(db: Db, org_id: string, user_id: string): Promise<NonNullable<ReturnType<typeof highestRole>>> {
  const role = highestRole((await listOrgsOfUser(db, user_id, org_id)).flatMap((grant) => grant.role ?? []));
  if (role === undefined) throw notFound("user", user_id);
  return role;
}

/**
 * Makes a token of the org, or of one of its users. It opens this org alone: an org's admin must not get into other orgs
 * of the same user by it. Its secret is answered here and never again.
 */
export async function issueToken(plane: Plane, db: Db, caller: Caller, body: BodyOf<Routes["createToken"]>): Promise<NewToken> {
  const { org_id } = caller;
  const { label, role, scopes = [], expires_in_hours = 0, user_id } = body;
  if (!roleAtLeast(caller.role, role)) throw forbidden(`field role: a token cannot have more than ${caller.role}, which its maker has`);
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
    if (token === undefined) throw new Error("a token that was just made is not there");
    announce(tx, plane, org_id, { kind: "token", id, change: "created" });
    return { ...toWire(token, plane.clock.now()), token: secret };
  });
}

/** Gives a token a new secret, answered here and never again; the old one is taken for `overlap_seconds` more. */
export async function rotate(plane: Plane, db: Db, org_id: string, id: string, overlap_seconds: number): Promise<NewToken> {
  return await db.transaction(async (tx) => {
    const now = plane.clock.now();
    const token = await lockToken(tx, org_id, id);
    if (token === undefined) throw notFound("token", id);
    const status = statusOf(token, now);
    if (status !== "active") throw conflict(`token ${id} is ${status}; make another one`);
    const { secret, hash, prefix } = newSecret(token.kind);
    const previous_until = new Date(now.getTime() + overlap_seconds * 1_000);
    announce(tx, plane, org_id, { kind: "token", id, change: "updated" });
    return { ...toWire(await rotateToken(tx, org_id, id, { hash, prefix, previous_until, at: now }), now), token: secret };
  });
}
