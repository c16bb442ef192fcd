import { defaultTag } from "@roamfleet/protocol/release-file";
import type { Release } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { query } from "../../api/queries.ts";
import { Button, byteText, Command, Dialog, notifyDone, Progress, Segments, shellLine, TextInput, TextLine } from "../../ui/index.ts";
import { KIND_DEFAULT, noteOf } from "./file-content.ts";
import { type Digest, FileChooser, useDigest } from "./file-input.tsx";
import {
  type Described,
  KINDS_WITHOUT_MANIFEST,
  OtherRefusal,
  readManifest,
  ReleaseFields,
  useCreateRelease,
  useDescribed,
} from "./release-fields.tsx";
import { startPush } from "./uploads.tsx";

const WAYS = [
  { value: "file", label: "A file" },
  { value: "image", label: "An image in a registry" },
] as const;

/** Creates a release from a file or from an image in a registry. Render it only while it is open. */
export function PushDialog({ file, onFile, onClose }: { file: File | undefined; onFile: (file: File) => void; onClose: () => void }) {
  const navigate = useNavigate();
  const [is_image, setImage] = useState(false);
  const created = (release: Release): void => {
    onClose();
    if (file !== undefined && !is_image && release.artifact_state === "awaiting_upload") return startPush(release, file);
    notifyDone(
      release.artifact_state === "awaiting_upload"
        ? `${release.tag.slice(0, 80)} created. Its file is not uploaded yet.`
        : is_image
          ? `${release.tag.slice(0, 80)} created`
          : "The server already has this content. Nothing was uploaded.",
    );
    void navigate({ to: "/releases/$id", params: { id: release.id } });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title="Push release"
      description="A release is a tag with immutable content. Pushing does not change robots; deploy the release to update them."
    >
      <div className="mb-4">
        <Segments label="Source" options={WAYS} value={is_image ? "image" : "file"} onChange={(way) => setImage(way === "image")} />
      </div>
      {is_image && <PushImageForm onCreated={created} />}
      {!is_image && file === undefined && (
        <FileChooser
          label="Choose file"
          hint="or drop it anywhere on this page: an app bundle (tar.gz), an image archive (docker save), an OS image (RAUC bundle), or any file"
          onFile={onFile}
        />
      )}
      {!is_image && file !== undefined && (
        <PushFileForm key={`${file.name} ${file.size} ${file.lastModified}`} file={file} onCreated={created} />
      )}
    </Dialog>
  );
}

/** Maximum number of releases that are searched for one with the same content. */
const LOOKED_THROUGH = 200;

/** The form for a release from a file. A worker computes the digest while the user fills in the form; the upload starts when both are done. */
function PushFileForm({ file, onCreated }: { file: File; onCreated: (release: Release) => void }) {
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
    const said = { ...(notes === "" ? {} : { notes }), ...(KINDS_WITHOUT_MANIFEST.includes(kind) ? {} : read) };
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
          {is_wanted && sha256 === undefined ? "Reading file…" : begun === undefined ? "Push" : "Resume upload"}
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
        <TextLine className="font-medium">{file.name}</TextLine>
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
  return shellLine("rf", "releases", "push", name, {
    tag: tag === defaultTag(name) ? undefined : tag,
    kind,
    app: app === "main" ? undefined : app,
    notes: notes || undefined,
    manifest: manifest.trim() === "" ? undefined : "manifest.json",
  });
}

/** The form for a release from an image that robots pull from its registry. */
function PushImageForm({ onCreated }: { onCreated: (release: Release) => void }) {
  const [image, setImage] = useState("");
  const [described, change] = useDescribed({ tag: "", app: "main", kind: "container_image", notes: "", manifest: "" });
  const creation = useCreateRelease(onCreated);
  const sha256 = imageDigest(image);
  const { tag, app, notes, manifest } = described;
  const send = (): void => {
    const read = readManifest(manifest);
    if (sha256 === undefined || "problem" in read) return;
    const said = { ...(notes === "" ? {} : { notes }), ...read };
    creation.mutate({
      body: { tag, app, kind: "container_image", ...said, image: image.trim(), artifact_sha256: sha256, artifact_size: 0 },
    });
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <TextInput
        label="Image"
        required
        autoFocus
        placeholder="registry/name@sha256:…"
        className="font-mono text-xs"
        value={image}
        onValue={setImage}
        hint="The image reference with its digest, which `docker buildx imagetools inspect IMAGE` shows"
        error={
          image === "" || sha256 !== undefined
            ? undefined
            : "Must end in @sha256: followed by 64 hex digits, because an image tag can later refer to another image."
        }
      />
      <ReleaseFields described={described} onChange={change} error={creation.error} is_image />
      <OtherRefusal error={creation.error} />
      <Command>
        {shellLine("rf", "releases", "push", "--image", image === "" ? "registry/name@sha256:…" : image, "--tag", tag === "" ? "TAG" : tag)}
      </Command>
      <div className="mt-4 flex justify-end">
        <Button look="primary" type="submit" busy={creation.isPending} disabled={sha256 === undefined}>
          Push
        </Button>
      </div>
    </form>
  );
}

/** Returns the digest at the end of an image reference, as 64 hex digits; undefined if there is none. */
const imageDigest = (reference: string): string | undefined => /^[^@\s]+@sha256:([0-9a-f]{64})$/.exec(reference.trim())?.[1];
