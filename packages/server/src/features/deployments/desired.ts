import type { Desired, DesiredApp, DesiredConfig } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { addLayers } from "./image-layers.ts";
import { listDesiredApps, listDesiredConfigs, listGenerations } from "./store/robot-state.ts";

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
