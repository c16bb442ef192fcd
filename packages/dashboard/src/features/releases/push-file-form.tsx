import { defaultTag } from "@roamfleet/protocol/release-file";
import type { Release } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { query } from "../../api/queries.ts";
import { byteText, Button, Command, Progress, shellLine, Text } from "../../ui/index.ts";
import { KIND_DEFAULT, noteOf } from "./file-content.ts";
import { type Described, OtherRefusal, readManifest, ReleaseFields, useCreateRelease, useDescribed } from "./release-fields.tsx";
import { type Digest, useDigest } from "./use-digest.ts";

/** Number of releases that are searched for the same content. */
const LOOKED_THROUGH = 200;

/** The form for a release from a file. A worker computes the digest while the user fills in the form; the upload starts when both are done. */
export function PushFileForm({ file, onCreated }: { file: File; onCreated: (release: Release) => void }) {
  const digest = useDigest(file);
  const { sha256 } = digest;
  const same = useSameContent(sha256, file.size);
  const begun = same?.artifact_state === "awaiting_upload" ? same : undefined;
  const [described, change] = useDescribed({
    tag: begun?.tag ?? defaultTag(file.name),
    app: begun?.app ?? "main",
    kind: begun?.kind ?? digest.content?.kind ?? KIND_DEFAULT,
    notes: begun?.notes ?? "",
    manifest: "",
  });
  const [is_wanted, setWanted] = useState(false);
  const creation = useCreateRelease(onCreated);
  const { mutate } = creation;
  useEffect(() => {
    if (!is_wanted || sha256 === undefined) return;
    setWanted(false);
    const { tag, app, kind, notes, manifest } = described;
    const read = readManifest(manifest);
    if ("problem" in read) return;
    const said = { ...(notes === "" ? {} : { notes }), ...(kind === "app_bundle" ? {} : read) };
    mutate({ body: { tag, app, kind, ...said, artifact_sha256: sha256, artifact_size: file.size } });
  }, [is_wanted, sha256, described, file.size, mutate]);
  const note = digest.content === undefined ? undefined : noteOf(digest.content, described.kind);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        setWanted(true);
      }}
    >
      <Reading file={file} digest={digest} />
      <SameContent same={same} tag={described.tag} />
      <ReleaseFields described={described} onChange={change} error={creation.error} note={note} />
      <OtherRefusal error={creation.error} />
      <Command>{pushLine(file.name, described)}</Command>
      <p className="mt-1 text-xs text-muted">
        To sign the release, run the same command with <code className="font-mono">--sign KEY_FILE</code> on the machine that has the key,
        before or after this upload.
      </p>
      <div className="mt-4 flex justify-end">
        <Button look="primary" type="submit" busy={is_wanted || creation.isPending} disabled={digest.error !== undefined}>
          {is_wanted && sha256 === undefined ? "Push when read" : begun === undefined ? "Push" : "Resume upload"}
        </Button>
      </div>
    </form>
  );
}

/** Finds a release with the same content. Prefers one that awaits its upload, such as after an interrupted upload. */
function useSameContent(sha256: string | undefined, size: number): Release | undefined {
  const latest = useQuery({ ...query("listReleases", { query: { limit: LOOKED_THROUGH } }), enabled: sha256 !== undefined });
  const same = latest.data?.items.filter((one) => one.artifact_sha256 === sha256 && one.artifact_size === size) ?? [];
  return same.find(({ artifact_state }) => artifact_state === "awaiting_upload") ?? same[0];
}

function Reading({ file, digest: { done_bytes, sha256, error } }: { file: File; digest: Digest }) {
  const is_read = sha256 !== undefined;
  return (
    <div className="mb-4 rounded-md border border-line bg-sunken p-3">
      <p className="mb-2 flex items-baseline justify-between gap-3">
        <Text line className="font-medium">
          {file.name}
        </Text>
        <span className="shrink-0 text-xs text-muted tabular-nums">{byteText(file.size)}</span>
      </p>
      <Progress
        label={`Reading ${file.name.slice(0, 80)}`}
        total={file.size}
        parts={[{ value: is_read ? file.size : done_bytes, tone: is_read ? "ok" : "info", label: "read" }]}
      />
      <p className="mt-1.5 text-xs [overflow-wrap:anywhere] text-muted" aria-live="polite">
        {error !== undefined ? (
          <span className="text-bad">The file cannot be read: {error}</span>
        ) : is_read ? (
          <>
            SHA-256 <span className="font-mono">{sha256}</span>
          </>
        ) : (
          `Computing the digest: ${byteText(done_bytes)} of ${byteText(file.size)}`
        )}
      </p>
    </div>
  );
}

function SameContent({ same, tag }: { same: Release | undefined; tag: string }) {
  if (same === undefined) return null;
  const is_same_tag = same.tag === tag;
  return (
    <p className="mb-3 rounded-md border border-line bg-info-soft p-3 text-info [overflow-wrap:anywhere]">
      {same.artifact_state === "awaiting_upload" && is_same_tag ? (
        <>
          <bdi>{same.tag}</bdi> is awaiting this file. The upload resumes where it stopped.
        </>
      ) : (
        <>
          Release <bdi>{same.tag}</bdi> has the same content
          {is_same_tag
            ? ": pushing it again has no effect."
            : ". With another tag, it becomes a second release; the stored content is not uploaded again."}
        </>
      )}
    </p>
  );
}

/** Returns the equivalent `rf` command. */
function pushLine(name: string, { tag, app, kind, notes, manifest }: Described): string {
  return shellLine(
    "rf",
    "releases",
    "push",
    name,
    ...(tag === defaultTag(name) ? [] : ["--tag", tag]),
    "--kind",
    kind,
    ...(app === "main" ? [] : ["--app", app]),
    ...(notes === "" ? [] : ["--notes", notes]),
    ...(manifest.trim() === "" ? [] : ["--manifest", "manifest.json"]),
  );
}
