import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { authenticateAgain } from "../../kernel/authenticate.ts";
import { roleOnFound } from "../../kernel/authorize.ts";
import { type Caller, mayInWholeOrg, requireReached, requireRole } from "../../kernel/caller.ts";
import { Fault, forbidden } from "../../kernel/fault.ts";
import { isText, readHint } from "../../engines/bus/index.ts";
import { findLinkState, ROBOT_REMOVED } from "../robots/index.ts";
import type { Viewer } from "./viewer.ts";

/** Interval of the checks of streams. Authentication is also cached for 1 s, so a revoked token is detected within 1.5 s. */
const CHECK_EVERY_MS = 500;
const PING_EVERY_MS = 30_000;
const OUT_OF_REACH = "the robot is no longer in the scopes of the token";

/**
 * Checks all open streams at an interval: the viewer's permissions, whether its robot is connected, and whether the viewer answers pings.
 */
export function watchViewers(plane: Plane, viewers: ReadonlySet<Viewer>): { stop(): void } {
  const pings = plane.clock.every(PING_EVERY_MS, () => {
    for (const viewer of viewers) viewer.ping();
  });
  const checks = plane.clock.every(CHECK_EVERY_MS, async () => {
    await checkTokens(plane, viewers);
    for (const viewer of viewers) {
      // Skip streams that have not started. They check the robot's connection after their stored records are sent.
      const { kind, robot_id } = viewer.admitted;
      if (viewer.started && kind.of === "robot" && plane.link.session(robot_id) === undefined)
        viewer.close(CLOSE.agent_offline, "agent offline");
    }
  });
  const unsubscribe = plane.bus.subscribe(ROBOT_REMOVED, async (message) => {
    const { org_id, robot_id } = readHint<{ org_id: string; robot_id: string }>(message, { org_id: isText, robot_id: isText });
    const of_robot = (): Viewer[] =>
      Array.from(viewers).filter(({ admitted }) => admitted.robot_id === robot_id && admitted.caller.org_id === org_id);
    // The message is untrusted, so check in the database whether the robot was really removed.
    if (of_robot().length === 0 || (await findLinkState(plane.db, org_id, robot_id)) !== "removed") return;
    for (const viewer of of_robot()) viewer.close(CLOSE.robot_removed, "robot removed");
  });
  return {
    stop: () => {
      pings.cancel();
      checks.cancel();
      unsubscribe();
    },
  };
}

/** Checks the tokens of all viewers. Authenticates each token once, however many streams it has. */
async function checkTokens(plane: Plane, viewers: ReadonlySet<Viewer>): Promise<void> {
  const by_token = Map.groupBy(viewers, ({ admitted: { held, caller } }) => `${held.by} ${held.hash.toString("latin1")} ${caller.org_id}`);
  await Promise.all(Array.from(by_token.values(), (same) => checkToken(plane, same)));
}

async function checkToken(plane: Plane, viewers: readonly Viewer[]): Promise<void> {
  const [first] = viewers;
  if (first === undefined) return;
  try {
    const caller = await authenticateAgain(plane, first.admitted.held, first.admitted.caller.org_id);
    for (const viewer of viewers) closeWithoutRole(() => requireRole(caller, viewer.admitted.kind.role), viewer);
    await checkPlaces(plane, caller, viewers);
  } catch (error) {
    for (const viewer of viewers) closeRefused(error, viewer);
  }
}

/**
 * Checks again whether viewers with limited scopes may see their robot or fleet, because robots move and grants change. Uses one lookup per
 * token and kind of object.
 */
async function checkPlaces(plane: Plane, caller: Caller, viewers: readonly Viewer[]): Promise<void> {
  const limited = viewers.filter(({ open, admitted }) => open && !mayInWholeOrg(caller, admitted.kind.role));
  if (limited.length === 0) return;
  const db = plane.db.forOrg(caller.org_id);
  const idsOf = (of: "robot" | "fleet"): string[] => [
    ...new Set(limited.filter(({ admitted }) => admitted.kind.of === of).map(({ admitted }) => admitted.robot_id)),
  ];
  const find = async (of: "robot" | "fleet") => {
    const ids = idsOf(of);
    return ids.length === 0 ? undefined : await plane.findPlaces(db, caller.org_id, of, ids, []);
  };
  const found = { robot: await find("robot"), fleet: await find("fleet") };
  for (const viewer of limited) {
    const { robot_id, kind } = viewer.admitted;
    const place = found[kind.of]?.get(robot_id);
    const role = place === undefined ? undefined : roleOnFound(caller, place);
    closeWithoutRole(() => requireReached(role, kind.role, () => forbidden(OUT_OF_REACH)), viewer);
  }
}

function closeWithoutRole(check: () => void, viewer: Viewer): void {
  try {
    check();
  } catch (error) {
    closeRefused(error, viewer);
  }
}

/** Closes a viewer whose token was refused. Ignores other errors, such as a database outage, so the stream continues. */
function closeRefused(error: unknown, viewer: Viewer): void {
  if (!(error instanceof Fault)) return;
  if (error.code === "unauthorized") viewer.close(CLOSE.token_revoked, error.message);
  else if (error.code === "forbidden") viewer.close(CLOSE.role_lost, error.message);
}
