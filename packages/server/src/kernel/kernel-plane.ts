import type { Clock, IdSource } from "@roamfleet/clock";
import type { SignedRequest } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import type { FindPlaces } from "./authorize.ts";
import type { Caller, RobotCaller } from "./caller.ts";
import type { DbErrors, SystemDb } from "./db.ts";
import type { MasterKeys } from "./master-keys.ts";
import type { Networks } from "./networks.ts";
import type { HeldProof } from "./proof.ts";
import type { RateLimits } from "./rate-limit.ts";

/** How requests prove who they are; the features that own tokens and robots fill it in. */
export interface Authenticators {
  /** Resolves a portal token and the org that the request names; throws 401 or 403. */
  portal(secret: string, org_id: string | undefined): Promise<Caller>;
  /** Resolves the cookie of a session; throws 401, or 403 for an org that the session is not about. */
  session(secret: string, org_id: string | undefined): Promise<Caller>;
  /** Resolves what somebody showed before; throws like the two. Only a look whether it still holds keeps no session from growing idle. */
  held(held: HeldProof, org_id: string): Promise<Caller>;
  /** Checks a robot's signature over a request, which is accepted once; throws 401. */
  robot(robot_id: string, request: SignedRequest, signature: string): Promise<RobotCaller>;
  /** Returns those of the callers whose requests are refused by now: removed, held, replaced by a robot with another key, or of a suspended org. */
  refusedRobots<T extends RobotCaller>(robots: readonly T[]): Promise<T[]>;
}

export interface AdminPolicy {
  /** Undefined: open mode, for loopback peers only. */
  token: string | undefined;
  behind_proxy: boolean;
}

/** What the kernel needs of the plane to serve requests. */
export interface KernelPlane {
  clock: Clock;
  id: IdSource;
  log: Logger;
  db: SystemDb;
  db_errors: DbErrors;
  authenticators: Authenticators;
  /** Where objects are, for callers whose role is limited to places. */
  findPlaces: FindPlaces;
  admin: AdminPolicy;
  /** What the data keys of orgs' secrets are encrypted with. */
  secrets: MasterKeys;
  /** Who may speak for others; when there is one, nobody else may connect. */
  proxies: Networks;
  rate_limits: RateLimits;
}
