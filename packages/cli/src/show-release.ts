import type { Body } from "@robofleet/sdk";
import type { Context } from "./context.ts";
import { bytes, relative } from "./duration.ts";

export function showRelease(context: Context, release: Body<"getRelease">["data"]): void {
  const { out } = context;
  out.details([
    ["Id", release.id],
    ["Tag", release.tag],
    ["App", release.app],
    ["Kind", release.kind],
    ["Notes", release.notes ?? undefined],
    ["Artifact", out.status(release.artifact_state)],
    ["Image", release.image ?? undefined],
    ["Size", `${bytes(release.artifact_size)} (${release.artifact_size} bytes)`],
    ["SHA-256", release.artifact_sha256],
    ["Manifest", release.manifest == null ? undefined : JSON.stringify(release.manifest)],
    [
      "Created",
      `${relative(release.created_at, context.now())}${release.created_by === null ? "" : ` by ${release.created_by.name ?? release.created_by.type}`}`,
    ],
  ]);
}
