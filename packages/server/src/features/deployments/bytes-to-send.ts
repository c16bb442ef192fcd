import type { Db } from "../../kernel/db.ts";
import { chooseImage, imagesOf, type ReleaseImage } from "./image-layers.ts";
import { listArchitectures, listKeptImages } from "./store/release-layers.ts";

/** Robots per query. */
const CHUNK_ROBOTS = 5_000;

export interface ReleaseToSend {
  kind: string;
  artifact_state: "awaiting_upload" | "stored" | "external";
  artifact_sha256: string;
  artifact_size: number;
}

/**
 * Returns how many bytes of a release this server would send to each of these robots. Of an image, parts are left out that are also in an
 * image that the robot runs or keeps for a rollback. 0 for an image in a registry, which robots pull themselves.
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
