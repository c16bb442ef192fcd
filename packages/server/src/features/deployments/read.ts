import type { AnswerOf, Deployment, QueryOf, Routes } from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, notFound } from "../../kernel/fault.ts";
import { readPage } from "../../kernel/page.ts";
import { parseTime } from "../../kernel/time.ts";
import {
  type DeploymentFilter,
  findRelease,
  findTargetRobot,
  fleetExists,
  getDeploymentRow,
  listDeploymentRows,
  listReleases,
} from "./store/deployments.ts";
import { listEventRows } from "./store/events.ts";
import type { DeploymentKind, DeploymentRow } from "./store/rows.ts";
import { listTargetRows } from "./store/targets.ts";
import { configDeploymentToWire, deploymentToWire, eventToWire, targetToWire } from "./wire.ts";

const NOUNS: Record<DeploymentKind, string> = { release: "deployment", config: "config deployment" };

export async function requireDeployment(db: Db, org_id: string, kind: DeploymentKind, id: string): Promise<DeploymentRow> {
  const row = await getDeploymentRow(db, org_id, kind, id);
  if (row === undefined) throw notFound(NOUNS[kind], id);
  return row;
}

/** Converts deployments to their wire format, each with its release. */
export async function withReleases(db: Db, org_id: string, rows: readonly DeploymentRow[]): Promise<Deployment[]> {
  const ids = [...new Set(rows.flatMap(({ release_id }) => (release_id === null ? [] : [release_id])))];
  const releases = new Map((await listReleases(db, org_id, ids)).map(({ id, tag, kind, app }) => [id, { id, tag, kind, app }]));
  return rows.map((row) => deploymentToWire(row, releases.get(row.release_id ?? "")));
}

/** Converts one deployment to its wire format. */
export async function withRelease(db: Db, row: DeploymentRow): Promise<Deployment> {
  const [deployment] = await withReleases(db, row.org_id, [row]);
  if (deployment === undefined) throw new Error("a deployment disappeared while it was read");
  return deployment;
}

type Filters = Pick<QueryOf<Routes["listDeployments"]>, "status" | "robot_id" | "fleet_id" | "release_id" | "cause" | "since" | "until">;

async function readFilter(
  db: Db,
  org_id: string,
  kind: DeploymentKind,
  query: Filters & { namespace?: string },
): Promise<DeploymentFilter> {
  if (query.robot_id !== undefined && (await findTargetRobot(db, org_id, query.robot_id)) === undefined)
    throw notFound("robot", query.robot_id);
  if (query.fleet_id !== undefined && !(await fleetExists(db, org_id, query.fleet_id))) throw notFound("fleet", query.fleet_id);
  if (query.release_id !== undefined && (await findRelease(db, org_id, query.release_id))?.id !== query.release_id)
    throw notFound("release", query.release_id);
  const time = (text: string | undefined): Date | undefined => (text === undefined ? undefined : parseTime(text));
  return { kind, ...query, since: time(query.since), until: time(query.until) };
}

export async function listDeployments(
  db: Db,
  caller: Caller,
  query: QueryOf<Routes["listDeployments"]>,
): Promise<AnswerOf<Routes["listDeployments"]>> {
  const { org_id } = caller;
  const filter = await readFilter(db, org_id, "release", query);
  const page = await readPage(
    query,
    ["listDeployments", org_id],
    (window) => listDeploymentRows(db, caller, filter, window),
    (row) => row,
  );
  return { ...page, items: await withReleases(db, org_id, page.items) };
}

export async function listConfigDeployments(
  db: Db,
  caller: Caller,
  query: QueryOf<Routes["listConfigDeployments"]>,
): Promise<AnswerOf<Routes["listConfigDeployments"]>> {
  const { org_id } = caller;
  const filter = await readFilter(db, org_id, "config", query);
  return readPage(
    query,
    ["listConfigDeployments", org_id],
    (window) => listDeploymentRows(db, caller, filter, window),
    configDeploymentToWire,
  );
}

export async function listTargets(
  db: Db,
  caller: Caller,
  id: string,
  query: QueryOf<Routes["listDeploymentTargets"]>,
  kind: DeploymentKind = "release",
): Promise<AnswerOf<Routes["listDeploymentTargets"]>> {
  const { org_id } = caller;
  await requireDeployment(db, org_id, kind, id);
  await requireRobotFilter(db, org_id, query.robot_id);
  return readPage(query, ["listDeploymentTargets", org_id, id], (window) => listTargetRows(db, caller, id, query, window), targetToWire);
}

/** Returns events. Without parameters only those of the deployment itself, so the last one has its current status. */
export async function listEvents(
  db: Db,
  caller: Caller,
  kind: DeploymentKind,
  id: string,
  query: QueryOf<Routes["listDeploymentEvents"]>,
): Promise<AnswerOf<Routes["listDeploymentEvents"]>> {
  const { org_id } = caller;
  await requireDeployment(db, org_id, kind, id);
  await requireRobotFilter(db, org_id, query.robot_id);
  const { include, robot_id } = query;
  return readPage(
    query,
    ["events", org_id, id],
    ({ after, limit }) =>
      listEventRows(
        db,
        caller,
        id,
        { targets: include === "targets", robot_id, after_seq: Math.max(readSeq(after), query.after_seq ?? 0) },
        limit,
      ),
    eventToWire,
    (row) => String(row.seq),
  );
}

function readSeq(after: string | null): number {
  const seq = Number(after ?? 0);
  if (!Number.isSafeInteger(seq)) throw badRequest("cursor is invalid: use next_cursor of the previous page");
  return seq;
}

async function requireRobotFilter(db: Db, org_id: string, robot_id: string | undefined): Promise<void> {
  if (robot_id !== undefined && (await findTargetRobot(db, org_id, robot_id)) === undefined) throw notFound("robot", robot_id);
}
