import { hash, randomUUID } from "node:crypto";
import type { Client } from "@roamfleet/sdk";
import { tarGz, type TestEntry } from "../../packages/agent/src/testing/bundles.ts";

/** Runs until it is stopped, and prints a line periodically. */
export const STAYS = `trap "exit 0" TERM; echo "up $ROAMFLEET_RELEASE"; while :; do sleep 0.1; done`;
/** Exits with an error soon after its start, like a bad release. */
export const DIES = `echo "cannot go on"; sleep 0.2; exit 1`;

/** Creates a small app bundle that runs a shell script. */
export function appBundle(script = STAYS, manifest: Record<string, unknown> = {}, entries: TestEntry[] = []): Promise<Buffer> {
  const content = JSON.stringify({ start: ["sh", "run.sh"], stop_timeout_seconds: 2, ...manifest });
  return tarGz([
    { name: "roamfleet.json", content },
    { name: "run.sh", content: script },
    { name: "salt", content: randomUUID() },
    ...entries,
  ]);
}

interface ReleaseOptions {
  kind?: string;
  app?: string;
  manifest?: Record<string, unknown>;
}

/** Creates a release, uploads its bytes and returns its id. */
export async function pushBundle(api: Client, tag: string, bytes: Buffer, options: ReleaseOptions = {}): Promise<string> {
  const { kind = "app_bundle", app, manifest } = options;
  const { data } = await api.createRelease({
    body: { tag, kind, app, manifest, artifact_sha256: hash("sha256", bytes), artifact_size: bytes.length },
  });
  const response = await api.request("PUT", `/api/releases/${data.id}/artifact`, {
    body: Uint8Array.from(bytes),
    headers: { "content-type": "application/octet-stream" },
  });
  if (response.status !== 200) throw new Error(`the upload failed with ${response.status} ${await response.text()}`);
  await response.arrayBuffer();
  return data.id;
}
