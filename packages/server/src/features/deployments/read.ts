import type {
  AnswerOf,
  ConfigDeployment,
  Deployment,
  DeploymentEvent,
  DeploymentTarget,
  DeploymentWave,
  QueryOf,
  Routes,
} from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, notFound } from "../../kernel/fault.ts";
import { readPage } from "../../kernel/page.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import {
  type DeploymentFilter,
  findRelease,
  findTargetRobot,
  fleetExists,
  getDeploymentRow,
  listDeploymentRows,
  listReleases,
  lockDeployments,
} from "./store/deployments.ts";
import { selectionText, selectionTexts } from "./create/selection.ts";
import { listEventRows } from "./store/events.ts";
import type { DeploymentKind, DeploymentRow, EventRow, WaveRow } from "./store/rows.ts";
import { listTargetRows, type NamedTargetRow } from "./store/targets.ts";
import type { GateCheck } from "./rollout/gate-checks.ts";
import { readGateChecks } from "./rollout/gates.ts";
import { isGateOpen } from "./rollout/rules.ts";
import { wholeRollout } from "./policy.ts";
import { countOffline, listWaves } from "./store/waves.ts";
import { countsOf, isRemoved } from "./state.ts";

const NOUNS: Record<DeploymentKind, string> = { release: "deployment", config: "config deployment" };

export async function requireDeployment(db: Db, org_id: string, kind: DeploymentKind, id: string): Promise<DeploymentRow> {
  const row = await getDeploymentRow(db, org_id, kind, id);
  if (row === undefined) throw notFound(NOUNS[kind], id);
  return row;
}

/** Locks a deployment and returns its row. Throws 404 if it does not exist. */
export async function lockDeployment(tx: Db, org_id: string, kind: DeploymentKind, id: string): Promise<DeploymentRow> {
  const [row] = await lockDeployments(tx, org_id, [id]);
  if (row?.kind !== kind) throw notFound(NOUNS[kind], id);
  return row;
}

/** Converts deployments to their wire format, each with its release. */
export async function withReleases(db: Db, org_id: string, rows: readonly DeploymentRow[]): Promise<Deployment[]> {
  const ids = [...new Set(rows.flatMap(({ release_id }) => (release_id === null ? [] : [release_id])))];
  const releases = new Map((await listReleases(db, org_id, ids)).map(({ id, tag, kind, app }) => [id, { id, tag, kind, app }]));
  const selections = await selectionTextsOf(db, org_id, rows);
  return rows.map((row, i) => deploymentToWire(row, releases.get(row.release_id ?? ""), selections[i] ?? null));
}

const selectionTextsOf = (db: Db, org_id: string, rows: readonly DeploymentRow[]) =>
  selectionTexts(
    db,
    org_id,
    rows.map(({ target_selector }) => target_selector),
  );

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
  const page = await readPage(
    query,
    ["listConfigDeployments", org_id],
    (window) => listDeploymentRows(db, caller, filter, window),
    (row) => row,
  );
  const selections = await selectionTextsOf(db, org_id, page.items);
  return { ...page, items: page.items.map((row, i) => configDeploymentToWire(row, selections[i] ?? null)) };
}

/** Converts one config deployment to its wire format. */
export const showConfigDeployment = async (db: Db, row: DeploymentRow): Promise<ConfigDeployment> =>
  configDeploymentToWire(row, await selectionText(db, row.org_id, row));

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

/** Returns events of a deployment. Without parameters, omits the events of its targets, so the last event has the current status. */
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

/** Returns the waves of a deployment in order. A deployment without waves has a single wave with all robots. */
export async function listDeploymentWaves(
  db: Db,
  caller: Caller,
  id: string,
  query: QueryOf<Routes["listDeploymentWaves"]>,
  kind: DeploymentKind = "release",
): Promise<AnswerOf<Routes["listDeploymentWaves"]>> {
  const { org_id } = caller;
  const deployment = await requireDeployment(db, org_id, kind, id);
  const rows = deployment.rollout.waves === undefined ? [asSingleWave(deployment)] : await listWaves(db, org_id, id);
  const offline = deployment.count_queued === 0 ? [] : await countOffline(db, org_id, id);
  const { current_wave, wave_count, finished_at } = deployment;
  const current = rows.find(({ wave }) => wave === current_wave);
  const is_gated = current !== undefined && current.opened_at !== null && finished_at === null && current_wave + 1 < wave_count;
  const checks = is_gated ? await readGateChecks(db, deployment, current) : [];
  return readPage(
    query,
    ["listDeploymentWaves", org_id, id],
    async ({ after, limit }) => rows.filter(({ wave }) => after === null || wave > Number(after)).slice(0, limit),
    (row) =>
      waveToWire(deployment, row, {
        offline: offline.find(({ wave }) => wave === row.wave)?.count ?? 0,
        checks: row.wave === current_wave ? checks : [],
      }),
    ({ wave }) => String(wave),
  );
}

function asSingleWave(deployment: DeploymentRow): WaveRow {
  return {
    ...deployment,
    wave: 0,
    size: deployment.count_total,
    opened_at: deployment.fan_out_done_at,
    passed_at: deployment.finished_at,
    metric_checks: null,
  };
}

function waveToWire(
  deployment: DeploymentRow,
  row: WaveRow,
  { offline, checks }: { offline: number; checks: readonly GateCheck[] },
): DeploymentWave {
  const policy = wholeRollout(deployment.rollout).waves?.[row.wave];
  const { soak_seconds, gate } = policy ?? { soak_seconds: 0, gate: "auto" as const };
  const status = statusOf(deployment, row);
  // The last wave passes when the deployment ends. Its row may then have no `passed_at`, because no further step of the rollout sets it.
  const passed_at = row.passed_at ?? (status === "passed" ? deployment.finished_at : null);
  const soaks_until = row.passed_at === null ? null : new Date(row.passed_at.getTime() + soak_seconds * 1_000);
  return {
    wave: row.wave,
    percent: policy?.percent ?? null,
    count: policy?.count ?? null,
    labels: policy?.labels ?? null,
    soak_seconds,
    gate,
    gate_incidents: policy?.gate_incidents ?? null,
    gate_metrics: policy?.gate_metrics ?? [],
    gate_checks: checks.map((check) => gateCheckToWire(check, soaks_until)),
    status,
    ...countsOf({ ...row, count_total: row.size }),
    offline,
    opened_at: wireTime(row.opened_at),
    passed_at: wireTime(passed_at),
    soaks_until: wireTime(soaks_until),
  };
}

function gateCheckToWire({ kind, fails, message, covered_until, incident_id }: GateCheck, soaks_until: Date | null) {
  const is_covered = covered_until !== null && soaks_until !== null && covered_until >= soaks_until;
  return { kind, state: fails ? ("failing" as const) : is_covered ? ("passing" as const) : ("waiting" as const), message, incident_id };
}

function statusOf(deployment: DeploymentRow, { wave, opened_at, passed_at }: WaveRow): DeploymentWave["status"] {
  const { current_wave, wave_count } = deployment;
  if (opened_at === null) return "pending";
  if (wave < current_wave) return "passed";
  if (needsPromotion(deployment, wave)) return "gate";
  if (passed_at === null) return deployment.finished_at === null ? "open" : "passed";
  return wave + 1 >= wave_count ? "passed" : "soaking";
}

/** Whether a wave needs a promotion by a user that has not happened yet. */
function needsPromotion({ rollout, promoted_wave }: DeploymentRow, wave: number): boolean {
  const gate_before = wholeRollout(rollout).waves?.[wave - 1]?.gate ?? "auto";
  return !isGateOpen({ wave, gate_before, promoted_wave });
}

const commonToWire = (row: DeploymentRow, selection: string | null) => ({
  target_kind: row.target_kind,
  robot_id: row.robot_id,
  fleet_id: row.fleet_id,
  target_selector: row.target_selector,
  selection,
  status: row.status,
  reason: row.reason,
  counts: countsOf(row),
  scheduled_at: wireTime(row.scheduled_at),
  rollout: wholeRollout(row.rollout),
  wave: row.current_wave,
  wave_count: row.wave_count,
  awaiting_promotion: row.status === "in_progress" && row.wave_passed_at === null && needsPromotion(row, row.current_wave),
  paused_at: wireTime(row.paused_at),
  created_by: row.created_by,
  cancel_requested_at: wireTime(row.cancel_requested_at),
  expires_at: wireTime(row.expires_at),
  started_at: wireTime(row.started_at),
  finished_at: wireTime(row.finished_at),
  created_at: wireTime(row.created_at),
  updated_at: wireTime(row.updated_at),
});

export function deploymentToWire(row: DeploymentRow, release: Deployment["release"] | undefined, selection: string | null): Deployment {
  const { id, release_id, app } = row;
  if (release_id === null) throw new Error("a release deployment has no release");
  return {
    id,
    release_id,
    release: release ?? { id: release_id, tag: "", kind: "", app: app ?? "main" },
    retry_of: row.retry_of,
    rollback_of: row.rollback_of,
    ...commonToWire(row, selection),
  };
}

const configDeploymentToWire = (row: DeploymentRow, selection: string | null): ConfigDeployment => ({
  id: row.id,
  namespace: row.namespace,
  revision: row.revision ?? row.id,
  ...commonToWire(row, selection),
});

export const targetToWire = (row: NamedTargetRow): DeploymentTarget => ({
  id: row.id,
  deployment_id: row.deployment_id,
  robot_id: row.robot_id,
  robot_name: row.robot_name,
  wave: row.wave,
  status: row.status,
  reason: row.reason,
  attempt: row.attempt,
  waiting_for: row.waiting_for,
  progress: row.progress,
  previous_release_id: row.previous_release_id,
  removed: isRemoved(row),
  created_at: wireTime(row.created_at),
  updated_at: wireTime(row.updated_at),
});

export const eventToWire = (row: EventRow): DeploymentEvent => ({ ...row, at: wireTime(row.at) });
