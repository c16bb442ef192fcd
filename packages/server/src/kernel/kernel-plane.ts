import type { Clock, IdSource } from "@roamfleet/clock";
import type { SignedRequest } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import type { FindPlaces } from "./authorize.ts";
import type { Caller, HashedProof, RobotCaller } from "./caller.ts";
import type { DbErrors, SystemDb } from "./db.ts";
import type { MasterKeys } from "./master-keys.ts";
import type { Networks } from "./networks.ts";
import type { RateLimits } from "./rate-limit.ts";

/** How requests are authenticated. The features that own tokens and robots implement it. */
export interface Authenticators {
  /** Resolves a portal token and the org that the request names. Throws 401 or 403. */
  portal(secret: string, org_id: string | undefined): Promise<Caller>;
  /** Resolves a session cookie. Throws 401, or 403 for an org that the session does not cover. */
  session(secret: string, org_id: string | undefined): Promise<Caller>;
  /**
   * Checks whether a proof that was accepted before is still valid. Throws like `portal` and `session`. Does not count as activity of a
   * session, so it does not postpone the session's expiry.
   */
  recheck(proof: HashedProof, org_id: string): Promise<Caller>;
  /** Checks a robot's signature over a request, and accepts each signature once. Throws 401. */
  robot(robot_id: string, request: SignedRequest, signature: string): Promise<RobotCaller>;
  /**
   * Returns the subset of `robots` whose requests are now refused: robots that were removed, quarantined or replaced by a robot with
   * another key, and robots of a suspended org.
   */
  refusedRobots<T extends RobotCaller>(robots: readonly T[]): Promise<T[]>;
}

export interface AdminPolicy {
  /** The admin token. Undefined means open mode: the server accepts admin requests only from this machine. */
  token: string | undefined;
  behind_proxy: boolean;
}

/** The parts of the plane that the kernel needs to serve requests. */
export interface KernelPlane {
  clock: Clock;
  id: IdSource;
  log: Logger;
  db: SystemDb;
  db_errors: DbErrors;
  authenticators: Authenticators;
  /** Returns the sites and fleets of objects, to authorize callers whose role is limited to some sites or fleets. */
  findPlaces: FindPlaces;
  admin: AdminPolicy;
  /** Encrypts the data keys of orgs' secrets. */
  secrets: MasterKeys;
  /** Proxies whose forwarding headers are trusted. If there are any, only they may connect. */
  proxies: Networks;
  rate_limits: RateLimits;
  state: PlaneState;
}

/** State that features keep per plane, such as their batchers. A feature declares its state with `planeState`. */
export class PlaneState {
  readonly #values = new Map<unknown, unknown>();

  of<P, T>(create: (plane: P) => T, plane: P): T {
    if (!this.#values.has(create)) this.#values.set(create, create(plane));
    return this.#values.get(create) as T;
  }
}

/** Declares state of a plane, such as a batcher. The returned function creates it on first use. A process may run several planes. */
export const planeState =
  <P extends { state: PlaneState }, T>(create: (plane: P) => T) =>
  (plane: P): T =>
    plane.state.of(create, plane);
