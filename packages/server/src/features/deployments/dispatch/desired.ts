import type { Desired, DesiredApp, DesiredConfig, DesiredLayers } from "@roamfleet/protocol/link";
import type { Db } from "../../../kernel/db.ts";
import { listDesiredApps, listDesiredConfigs, listGenerations } from "../store/robot-state.ts";
import { listArchitectures, listImageParts, listUnapproved, type PartRow } from "../store/robots.ts";
import type { Plane } from "../../../context.ts";
import { registryLogins } from "../../configs/index.ts";

/** Returns the desired state of each of these robots, by robot id. */
export async function desiredOf(db: Db, org_id: string, robot_ids: readonly string[]): Promise<Map<string, Desired>> {
  // Read the generation first: a change between the reads is then sent again with a higher generation, and never lost.
  const generations = new Map((await listGenerations(db, org_id, robot_ids)).map((row) => [row.robot_id, row.generation]));
  const desired = new Map(
    robot_ids.map((id): [string, Desired] => [
      id,
      { type: "desired", robot_id: id, generation: generations.get(id) ?? 0, apps: {}, configs: {} },
    ]),
  );
  for (const row of await listDesiredApps(db, org_id, robot_ids)) {
    const app: DesiredApp = {
      release:
        row.release_id === null
          ? null
          : {
              id: row.release_id,
              tag: row.tag ?? "",
              kind: row.kind ?? "",
              artifact_sha256: row.artifact_sha256 ?? "",
              artifact_size: row.artifact_size ?? 0,
              image: row.image,
              manifest: row.manifest,
              signature: row.signature,
            },
      target_id: row.target_id,
      deployment_id: row.deployment_id,
      attempt: row.attempt,
      policy: {
        verify_seconds: row.verify_seconds,
        ...(row.install_from === null ? {} : { install_from: row.install_from.getTime() }),
        ...(row.install_until === null ? {} : { install_until: row.install_until.getTime() }),
      },
    };
    const own = desired.get(row.robot_id);
    if (own !== undefined) own.apps[row.app] = app;
  }
  for (const { robot_id, namespace, ...config } of await listDesiredConfigs(db, org_id, robot_ids)) {
    const own = desired.get(robot_id);
    if (own !== undefined) own.configs[namespace] = config satisfies DesiredConfig;
  }
  await addLayers(db, org_id, desired);
  return desired;
}

const IMAGE_KIND = "container_image";

/** An image in an uploaded archive. A robot that has none of the image's parts downloads all of them: the sum of their sizes. */
export interface ReleaseImage {
  /** `os/architecture` or `os/architecture/variant`; "" if the archive does not state the platform. */
  platform: string;
  config: DesiredLayers["config"];
  /** Layers of the image, from the lowest to the topmost. */
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

/** Maps Node.js names of architectures to OCI names, where they differ. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386" };

/** Returns the image for the robot's architecture; undefined if there is none. */
export function chooseImage(images: readonly ReleaseImage[], arch: string | undefined): ReleaseImage | undefined {
  if (arch === undefined) return undefined;
  const own = ARCHITECTURES[arch] ?? arch;
  return images.find(({ platform }) => platform.split("/")[0] === "linux" && platform.split("/")[1] === own);
}

const DOCKER_HUB = "docker.io";

/** Returns the registry host of an image name. By Docker's rules, a name without a host is on Docker Hub. */
export function registryOf(image: string): string {
  const [first = "", ...rest] = image.split("/");
  const is_host = rest.length > 0 && (/[.:]/.test(first) || first === "localhost");
  return is_host ? first.toLowerCase() : DOCKER_HUB;
}

/**
 * Adds to each robot's desired state the registry logins for the images that the robot is to run. Logins are only part of the message, not
 * of the stored state. A robot gets only the logins that it needs, and none before it is approved. If logins cannot be read, robots pull
 * images without them.
 */
export async function addRegistryAuth(
  { db, secrets, log }: Pick<Plane, "db" | "secrets" | "log">,
  org_id: string,
  desired: ReadonlyMap<string, Desired>,
): Promise<void> {
  const wanted = [...desired].flatMap(([robot_id, { apps }]) =>
    Object.values(apps).flatMap(({ release }) => (release?.image == null ? [] : [{ robot_id, release, host: registryOf(release.image) }])),
  );
  if (wanted.length === 0) return;
  const own = db.forOrg(org_id);
  try {
    const robot_ids = [...new Set(wanted.map(({ robot_id }) => robot_id))];
    const unapproved = new Set((await listUnapproved(own, org_id, robot_ids)).map(({ id }) => id));
    const approved = robot_ids.filter((id) => !unapproved.has(id));
    if (approved.length === 0) return;
    const logins = await registryLogins(own, { secrets }, org_id, approved);
    for (const { robot_id, release, host } of wanted) {
      const login = logins.get(robot_id)?.get(host);
      if (login !== undefined) release.registry_auth = login;
    }
  } catch (error) {
    log.error({ err: error, org_id }, "could not read registry logins; robots pull images without them");
  }
}
