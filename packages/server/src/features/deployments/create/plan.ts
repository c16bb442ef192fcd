import {
  type BodyOf,
  type ConfigDeploymentPlan,
  type DeploymentPlan,
  PLAN_ROBOTS_MAX,
  type Rollout,
  type Routes,
  type WholeRollout,
} from "@roamfleet/protocol/routes";
import type { CreateContext } from "../transition.ts";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { wireTime } from "../../../kernel/time.ts";
import { findAgentArch } from "../store/deployments.ts";
import { readConfigDeployment, readDeployment, type Target } from "./create.ts";
import { selectionText } from "./selection.ts";
import { expiresAt } from "./fan-out.ts";
import { assignWaves } from "../rollout/rules.ts";
import { wholeRollout } from "../policy.ts";
import { nextWindow } from "./check-rollout.ts";
import { listArchitectures, listKeptImages, listPlannedRobots, type PlannedRobot } from "../store/robots.ts";
import { chooseImage, imagesOf, type ReleaseImage } from "../dispatch/desired.ts";

/** Maximum robots per query. Other requests run between the queries. */
const CHUNK_ROBOTS = 5_000;

type Line = DeploymentPlan["robots"][number];
type ConfigLine = ConfigDeploymentPlan["robots"][number];

/** Returns what a deployment with this body would do if it were created now. Reads only. */
export async function planDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  body: BodyOf<Routes["createDeployment"]>,
): Promise<DeploymentPlan> {
  const { org_id } = caller;
  const { release, ...read } = await readDeployment(db, engine, caller, body);
  const { policy, starts_at, ...plan } = await planStart(db, engine, org_id, read);
  const arch = await findAgentArch(db, org_id, release.id);
  const robots = await planRobots(db, org_id, { ...read.target, app: release.app, arch }, policy);
  const robot_ids = robots.map(({ id }) => id);
  const bytes = await bytesToSend(db, org_id, release, robot_ids);
  const lines = robots.map((robot): Line => {
    const already_installed = robot.current_release_id === release.id;
    const wrong_arch = arch !== null && robot.arch !== null && robot.arch !== arch;
    const incompatible = wrong_arch || (robot.kinds.length > 0 && !robot.kinds.includes(release.kind));
    const bytes_to_send = already_installed || incompatible ? 0 : (bytes.get(robot.id) ?? 0);
    return { ...lineOf(robot), incompatible, already_installed, bytes_to_send };
  });
  const window = policy.window === null ? null : nextWindow(policy.window, starts_at);
  const { id, tag, kind, app } = release;
  return {
    ...plan,
    release_id: id,
    release: { id, tag, kind, app },
    artifact_stored: release.artifact_state !== "awaiting_upload",
    window: window === null ? null : { opens_at: wireTime(window.opens_at), closes_at: wireTime(window.closes_at) },
    ...sumOf(lines),
    waves: wavesOf(lines, policy, sumOf),
    robots: inOrder(lines),
  };
}

/** Returns what a config deployment with this body would do if it were created now. Reads only. */
export async function planConfigDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  body: BodyOf<Routes["createConfigDeployment"]>,
): Promise<ConfigDeploymentPlan> {
  const { org_id } = caller;
  const { namespace, ...read } = await readConfigDeployment(db, engine, caller, body);
  const { policy, starts_at: _, ...plan } = await planStart(db, engine, org_id, read);
  // No app has an empty name: configs do not depend on what runs on the robots.
  const lines = (await planRobots(db, org_id, { ...read.target, app: "", arch: null }, policy)).map(lineOf);
  return { ...plan, namespace, ...countOf(lines), waves: wavesOf(lines, policy, countOf), robots: inOrder(lines) };
}

/** Returns the part of a plan that follows from the target and the policy, and when the deployment would start. */
async function planStart(
  db: Db,
  engine: CreateContext,
  org_id: string,
  { target, rollout, scheduled_at }: { target: Target; rollout: Rollout; scheduled_at: Date | null },
) {
  const now = engine.clock.now();
  const starts_at = scheduled_at !== null && scheduled_at > now ? scheduled_at : now;
  const policy = wholeRollout(rollout);
  return {
    policy,
    starts_at,
    dry_run: true as const,
    ...target,
    selection: await selectionText(db, org_id, target),
    scheduled_at: wireTime(scheduled_at),
    expires_at: wireTime(await expiresAt(db, engine, org_id, rollout, starts_at)),
    rollout: policy,
  };
}

type RobotInWave = PlannedRobot & { wave: number };

/** Returns the robots that a deployment would include now, in the order of their ids, with the wave of each. */
async function planRobots(
  db: Db,
  org_id: string,
  planned: Parameters<typeof listPlannedRobots>[2],
  { waves }: WholeRollout,
): Promise<RobotInWave[]> {
  const robots: PlannedRobot[] = [];
  for (;;) {
    const chunk = await listPlannedRobots(db, org_id, planned, robots.at(-1)?.id ?? "", CHUNK_ROBOTS);
    robots.push(...chunk);
    if (chunk.length < CHUNK_ROBOTS) break;
  }
  const of_robot = waves === null ? [] : assignWaves(robots, waves);
  return robots.map((robot, i) => ({ ...robot, wave: of_robot[i] ?? 0 }));
}

const lineOf = ({ id, name, wave, online }: RobotInWave): ConfigLine => ({ robot_id: id, name, wave, online });

const inOrder = <L extends ConfigLine>(lines: readonly L[]): L[] =>
  lines.toSorted((a, b) => a.wave - b.wave || (a.robot_id < b.robot_id ? -1 : 1)).slice(0, PLAN_ROBOTS_MAX);

/** Returns each requested wave, and the last, implicit one if it has robots. */
function wavesOf<L extends ConfigLine, S extends object>(lines: readonly L[], { waves }: WholeRollout, sum: (lines: readonly L[]) => S) {
  const asked = waves?.length ?? 0;
  const by_wave = Map.groupBy(lines, ({ wave }) => wave);
  return Array.from({ length: asked + (by_wave.has(asked) ? 1 : 0) }, (_, wave) => ({ wave, ...sum(by_wave.get(wave) ?? []) }));
}

const countOf = (lines: readonly ConfigLine[]): { total: number; offline: number } => ({
  total: lines.length,
  offline: lines.reduce((sum, { online }) => sum + (online ? 0 : 1), 0),
});

function sumOf(lines: readonly Line[]): Omit<DeploymentPlan["waves"][number], "wave"> {
  const count = (is: (line: Line) => boolean): number => lines.reduce((sum, line) => sum + (is(line) ? 1 : 0), 0);
  return {
    ...countOf(lines),
    incompatible: count(({ incompatible }) => incompatible),
    already_installed: count(({ already_installed }) => already_installed),
    bytes_to_send: lines.reduce((sum, line) => sum + line.bytes_to_send, 0),
  };
}

export interface ReleaseToSend {
  kind: string;
  artifact_state: "awaiting_upload" | "stored" | "external";
  artifact_sha256: string;
  artifact_size: number;
}

/**
 * Returns how many bytes of a release this server would send to each of these robots. For an image, omits the parts that the robot already
 * has in an image that it runs or keeps for a rollback. Returns 0 for an image in a registry, which robots pull directly.
 */
export async function bytesToSend(
  db: Db,
  org_id: string,
  release: ReleaseToSend,
  robot_ids: readonly string[],
): Promise<Map<string, number>> {
  if (release.artifact_state === "external") return new Map(robot_ids.map((id) => [id, 0]));
  const images =
    release.kind === "container_image" ? (await imagesOf(db, org_id, [release.artifact_sha256])).get(release.artifact_sha256) : undefined;
  if (images === undefined) return new Map(robot_ids.map((id) => [id, release.artifact_size]));
  const bytes = new Map<string, number>();
  for (let at = 0; at < robot_ids.length; at += CHUNK_ROBOTS) {
    for (const entry of await bytesOfImage(db, org_id, { images, whole: release.artifact_size }, robot_ids.slice(at, at + CHUNK_ROBOTS)))
      bytes.set(...entry);
  }
  return bytes;
}

async function bytesOfImage(
  db: Db,
  org_id: string,
  { images, whole }: { images: readonly ReleaseImage[]; whole: number },
  robot_ids: readonly string[],
): Promise<[string, number][]> {
  const kept = Map.groupBy(await listKeptImages(db, org_id, robot_ids), ({ robot_id }) => robot_id);
  const held = await imagesOf(db, org_id, [...new Set([...kept.values()].flat().map(({ artifact_sha256 }) => artifact_sha256))]);
  const robots = images.length > 1 ? await listArchitectures(db, org_id, robot_ids) : [];
  const architectures = new Map(robots.map(({ id, platform }) => [id, platform?.arch]));
  // Most robots of a fleet have the same architecture and images: compute each combination once.
  const known = new Map<string, number>();
  return robot_ids.map((robot_id) => {
    const arch = architectures.get(robot_id);
    const artifacts = (kept.get(robot_id) ?? []).map(({ artifact_sha256 }) => artifact_sha256);
    const alike = JSON.stringify([arch ?? "", artifacts]);
    let bytes = known.get(alike);
    if (bytes === undefined) {
      const image = images.length === 1 ? images[0] : chooseImage(images, arch);
      const own = artifacts.flatMap((artifact) => held.get(artifact) ?? []);
      bytes = image === undefined ? whole : sizeOf(partsOf([image]), partsOf(own));
      known.set(alike, bytes);
    }
    return [robot_id, bytes];
  });
}

/** Sizes by digest: a part that occurs twice in an image is downloaded once. */
const partsOf = (images: readonly ReleaseImage[]): Map<string, number> =>
  new Map(images.flatMap(({ config, layers }) => [config, ...layers]).map(({ sha256, size }) => [sha256, size]));

const sizeOf = (parts: ReadonlyMap<string, number>, there: ReadonlyMap<string, number>): number =>
  [...parts].reduce((sum, [sha256, size]) => sum + (there.has(sha256) ? 0 : size), 0);
