import { type BodyOf, type DeploymentPlan, PLAN_ROBOTS_MAX, type Routes } from "@roamfleet/protocol/routes";
import type { CreateContext } from "./transition.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { wireTime } from "../../kernel/time.ts";
import { bytesToSend } from "./bytes-to-send.ts";
import { readDeployment } from "./create.ts";
import { expiresAt } from "./expiry.ts";
import { assignWaves } from "./rollout/wave-members.ts";
import { wholeRollout } from "./rollout/whole-rollout.ts";
import { nextWindow } from "./rollout/window.ts";
import { listPlannedRobots, type PlannedRobot } from "./store/plans.ts";

/** Robots per query, so that other requests run in between. */
const CHUNK_ROBOTS = 5_000;

type Line = DeploymentPlan["robots"][number];

/** Returns what a deployment with this body would do if it were created now. Reads only. */
export async function planDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  body: BodyOf<Routes["createDeployment"]>,
): Promise<DeploymentPlan> {
  const { org_id } = caller;
  const now = engine.clock.now();
  const { release, target, rollout, scheduled_at } = await readDeployment(db, engine, caller, body);
  const starts_at = scheduled_at !== null && scheduled_at > now ? scheduled_at : now;
  const policy = wholeRollout(rollout);
  const robots: PlannedRobot[] = [];
  for (;;) {
    const chunk = await listPlannedRobots(db, org_id, { ...target, app: release.app }, robots.at(-1)?.id ?? "", CHUNK_ROBOTS);
    robots.push(...chunk);
    if (chunk.length < CHUNK_ROBOTS) break;
  }
  const waves = policy.waves === null ? robots.map(() => 0) : assignWaves(robots, policy.waves);
  const bytes = await bytesToSend(
    db,
    org_id,
    release,
    robots.map(({ id }) => id),
  );
  const lines = robots.map((robot, i): Line => {
    const already_installed = robot.current_release_id === release.id;
    const incompatible = robot.kinds.length > 0 && !robot.kinds.includes(release.kind);
    return {
      robot_id: robot.id,
      name: robot.name,
      wave: waves[i] ?? 0,
      online: robot.online,
      incompatible,
      already_installed,
      bytes_to_send: already_installed || incompatible ? 0 : (bytes.get(robot.id) ?? 0),
    };
  });
  const window = policy.window === null ? null : nextWindow(policy.window, starts_at);
  const { id, tag, kind, app } = release;
  return {
    dry_run: true,
    ...target,
    release_id: id,
    release: { id, tag, kind, app },
    artifact_stored: release.artifact_state !== "awaiting_upload",
    scheduled_at: wireTime(scheduled_at),
    expires_at: wireTime(await expiresAt(db, engine, org_id, rollout, starts_at)),
    rollout: policy,
    window: window === null ? null : { opens_at: wireTime(window.opens_at), closes_at: wireTime(window.closes_at) },
    ...sumOf(lines),
    waves: wavesOf(lines, policy.waves?.length ?? 0),
    robots: lines.toSorted((a, b) => a.wave - b.wave || (a.robot_id < b.robot_id ? -1 : 1)).slice(0, PLAN_ROBOTS_MAX),
  };
}

/** Returns each requested wave, and the last, implicit one if it has robots. */
function wavesOf(lines: readonly Line[], asked: number): DeploymentPlan["waves"] {
  const by_wave = Map.groupBy(lines, ({ wave }) => wave);
  return Array.from({ length: asked + (by_wave.has(asked) ? 1 : 0) }, (_, wave) => ({ wave, ...sumOf(by_wave.get(wave) ?? []) }));
}

function sumOf(lines: readonly Line[]): Omit<DeploymentPlan["waves"][number], "wave"> {
  const count = (is: (line: Line) => boolean): number => lines.reduce((sum, line) => sum + (is(line) ? 1 : 0), 0);
  return {
    total: lines.length,
    offline: count(({ online }) => !online),
    incompatible: count(({ incompatible }) => incompatible),
    already_installed: count(({ already_installed }) => already_installed),
    bytes_to_send: lines.reduce((sum, line) => sum + line.bytes_to_send, 0),
  };
}
