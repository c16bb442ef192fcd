import { type Robot, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { approveRobot, changeRobot, changeRobots, releaseQuarantine } from "./change.ts";
import { removeRobot } from "./remove.ts";
import { fingerprint, publicKeyType } from "./public-key.ts";
import { findRelease, listRobots, type RobotKey } from "./store-list.ts";
import { type AppFields, findPlace, findRobot, type RobotPlace, type RobotStatus, type ShownRobotRow } from "./store.ts";

export function robotRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listRobots, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.fleet_id !== undefined) await requireFleet(db, org_id, query.fleet_id);
    if (query.site_id !== undefined) await requireSite(db, org_id, query.site_id);
    const { release_id } = query;
    const release = release_id === undefined ? undefined : found(await findRelease(db, org_id, release_id), "release", release_id);
    const { label = [], sort = "newest" } = query;
    const filter = { ...query, release, labels: [label].flat().map(readLabel) };
    if (contradict(filter.labels)) return { items: [], next_cursor: null };
    return readPage(
      query,
      [routes.listRobots.name, org_id],
      ({ after, limit }) => listRobots(db, caller, filter, { sort, after: after === null ? null : readKey(after), limit }),
      toWire,
      ({ id, name }) => JSON.stringify(sort === "name" ? { id, name } : { id }),
    );
  });

  serve(http, plane, routes.bulkUpdateRobots, async (_, { body, caller, db }) => ({ items: await changeRobots(plane, db, caller, body) }));

  serve(http, plane, routes.getRobot, async (_, { params, caller, db }) => ({ data: await readRobot(db, caller.org_id, params.id) }));

  serve(http, plane, routes.updateRobot, async (_, { params, body, caller, db }) => {
    await changeRobot(plane, db, caller, params.id, body);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });

  for (const [route, change] of [
    [routes.releaseHold, releaseQuarantine],
    [routes.approveRobot, approveRobot],
    [routes.deleteRobot, removeRobot],
  ] as const)
    serve(http, plane, route, async (_, { params, caller, db }) => {
      await change(plane, db, caller, params.id);
      return { data: await readRobot(db, caller.org_id, params.id) };
    });
}

/** Parses the key in a cursor. Throws 400 for a malformed key, which this server did not create for this list. */
function readKey(text: string): RobotKey {
  try {
    const { id, name } = JSON.parse(text) as Partial<Record<"id" | "name", unknown>>;
    if (typeof id === "string" && (name === undefined || typeof name === "string")) return name === undefined ? { id } : { id, name };
  } catch {
    // The invalid cursor is reported below.
  }
  throw badRequest("cursor is invalid: use next_cursor of the previous page");
}

/** Whether the filter requires two values of one label. No robot matches such a filter. */
const contradict = (labels: readonly { key: string; value: string }[]): boolean =>
  labels.some(({ key, value }) => labels.some((other) => other.key === key && other.value !== value));

function readLabel(text: string): { key: string; value: string } {
  const colon = text.indexOf(":");
  return { key: text.slice(0, colon), value: text.slice(colon + 1) };
}

const readRobot = async (db: Db, org_id: string, id: string): Promise<Robot> => toWire(found(await findRobot(db, org_id, id), "robot", id));

/**
 * Returns the robot's site and fleet, and whether it is online. Throws 404 if the org does not have the robot. Finds decommissioned robots
 * too, because their history can be read.
 */
export const requireRobot = async (db: Db, org_id: string, id: string): Promise<RobotPlace> =>
  found(await findPlace(db, org_id, id), "robot", id);

/** The app whose releases are returned as `current_release` and `desired_release` of a robot. */
const MAIN_APP = "main";

function toWire(robot: ShownRobotRow): Robot {
  const apps = robot.apps?.map(toApp) ?? [];
  const main = apps.find(({ app }) => app === MAIN_APP);
  return {
    id: robot.id,
    name: robot.name,
    site_id: robot.site_id,
    fleet_id: robot.fleet_id,
    status: statusOf(robot),
    last_seen_at: robot.last_seen_at,
    health: robot.health ?? "unknown",
    failing: robot.failing ?? [],
    held_at: robot.held_at,
    approval: robot.approval_requested_at === null ? "approved" : "pending",
    labels: robot.labels,
    agent_version: robot.agent_version,
    platform: robot.platform,
    apps,
    current_release: main?.current ?? null,
    desired_release: main?.desired ?? null,
    release_state: RELEASE_STATES.find((state) => apps.some((app) => app.release_state === state)) ?? "unknown",
    config_state: robot.config_state ?? "unknown",
    public_key_fingerprint: fingerprint(robot.public_key),
    public_key_type: publicKeyType(robot.public_key),
    created_at: robot.created_at,
    updated_at: robot.updated_at,
  };
}

function statusOf({ decommissioned_at, node_id, last_seen_at }: ShownRobotRow): RobotStatus {
  if (decommissioned_at !== null) return "decommissioned";
  if (node_id !== null) return "online";
  return last_seen_at === null ? "never_connected" : "offline";
}

/** States in order of severity, worst first. The state of a robot is the worst state of its apps. */
const RELEASE_STATES = ["failed", "behind", "current"] as const;

const toApp = ([app, current_id, current_tag, desired_id, desired_tag, status, release_state]: AppFields): Robot["apps"][number] => ({
  app,
  current: toRelease(current_id, current_tag),
  desired: toRelease(desired_id, desired_id === current_id ? current_tag : desired_tag),
  status,
  release_state,
});

const toRelease = (id: string | null, tag: string | null): Robot["current_release"] => (id === null || tag === null ? null : { id, tag });
