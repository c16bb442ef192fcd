import type { Desired, DesiredLayers } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { listArchitectures, listImageParts, type PartRow } from "./store/release-layers.ts";

const IMAGE_KIND = "container_image";

/** An image in an uploaded archive. A robot that has none of its parts downloads the sum of their sizes. */
export interface ReleaseImage {
  /** `os/architecture`, or with `/variant`; "" if the archive does not contain it. */
  platform: string;
  config: DesiredLayers["config"];
  /** From the lowest to the topmost. */
  layers: DesiredLayers["layers"];
}

/** Returns the images in each of these artifacts, one per platform; artifacts that are not image archives are absent. */
export async function imagesOf(db: Db, org_id: string, artifact_sha256s: readonly string[]): Promise<Map<string, ReleaseImage[]>> {
  const images = new Map<string, ReleaseImage[]>();
  if (artifact_sha256s.length === 0) return images;
  for (const part of await listImageParts(db, org_id, artifact_sha256s)) {
    const own = images.get(part.artifact_sha256) ?? [];
    images.set(part.artifact_sha256, own);
    addPart(own, part);
  }
  return images;
}

function addPart(images: ReleaseImage[], { platform, sha256, size, diff_id }: PartRow): void {
  if (diff_id === null) images.push({ platform, config: { sha256, size }, layers: [] });
  else images.at(-1)?.layers.push({ sha256, size, diff_id });
}

/** Adds the parts of each image to the desired state, so that robots download only parts that they lack. */
export async function addLayers(db: Db, org_id: string, desired: ReadonlyMap<string, Desired>): Promise<void> {
  const wanted = [...desired].flatMap(([robot_id, { apps }]) =>
    Object.values(apps).flatMap(({ release }) => (release?.kind === IMAGE_KIND && release.image === null ? [{ robot_id, release }] : [])),
  );
  const images = await imagesOf(db, org_id, [...new Set(wanted.map(({ release }) => release.artifact_sha256))]);
  const choosing = wanted.filter(({ release }) => (images.get(release.artifact_sha256)?.length ?? 0) > 1);
  const robots = choosing.length === 0 ? [] : await listArchitectures(db, org_id, [...new Set(choosing.map(({ robot_id }) => robot_id))]);
  const architectures = new Map(robots.map(({ id, platform }) => [id, platform?.arch]));
  for (const { robot_id, release } of wanted) {
    const own = images.get(release.artifact_sha256) ?? [];
    const image = own.length === 1 ? own[0] : chooseImage(own, architectures.get(robot_id));
    release.layers = image === undefined ? null : { config: image.config, layers: image.layers };
  }
}

/** Node's names of architectures that differ from OCI's. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386" };

/** Returns the image for the robot's architecture; undefined if there is none. */
export function chooseImage(images: readonly ReleaseImage[], arch: string | undefined): ReleaseImage | undefined {
  if (arch === undefined) return undefined;
  const own = ARCHITECTURES[arch] ?? arch;
  return images.find(({ platform }) => platform.split("/")[0] === "linux" && platform.split("/")[1] === own);
}
