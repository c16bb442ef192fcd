import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes, randomUUID } from "node:crypto";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import type { Rig } from "./rig.ts";

const TIMEOUT_MS = 600_000;

/** Polls until the condition is true. */
export const waitFor = async (what: string, look: () => Promise<boolean>): Promise<void> =>
  void (await until(what, look, { deadline_ms: TIMEOUT_MS, poll_ms: 50 }));

/**
 * Starts `roamfleet swarm` in a new fleet, with different robots for each seed; resolves when all are online. The caller must end the
 * swarm.
 */
export async function startSwarm(rig: Rig, robots: number, seed = 1): Promise<{ fleet_id: string; child: ChildProcess }> {
  const { data: site } = await rig.api.createSite({ body: { name: `swarm ${seed}` } });
  const { data: fleet } = await rig.api.createFleet({ body: { name: "swarm", site_id: site.id } });
  const { data: key } = await rig.api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id, max_uses: 0 } });
  const args = ["packages/swarm/src/main.ts", "--server", rig.server.url, "--robots", String(robots), "--seed", String(seed)];
  if (rig.certificate !== undefined) args.push("--ca-file", rig.certificate.ca_file);
  const child = spawn(process.execPath, args, {
    cwd: path.resolve(import.meta.dirname, ".."),
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, ROAMFLEET_ENROLL_KEY: key.key ?? "" },
  });
  await waitFor("all robots to be online", async () => (await rig.api.getFleet({ params: { id: fleet.id } })).data.online_count === robots);
  return { fleet_id: fleet.id, child };
}

/** Creates a release with random bytes as its artifact. Returns the id of the release. */
export const pushRelease = (rig: Rig, artifact_bytes: number): Promise<string> => pushBundle(rig, randomBytes(artifact_bytes));

/** Creates a release of kind `app_bundle` with these bytes as its artifact. Returns the id of the release. */
export async function pushBundle(rig: Rig, bytes: Buffer): Promise<string> {
  const { data } = await rig.api.createRelease({
    body: {
      tag: randomUUID(),
      kind: "app_bundle",
      artifact_sha256: createHash("sha256").update(bytes).digest("hex"),
      artifact_size: bytes.length,
    },
  });
  await (await rig.api.request("PUT", `/api/releases/${data.id}/artifact`, { body: bytes })).arrayBuffer();
  return data.id;
}
