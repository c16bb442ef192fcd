import type { Release } from "@roamfleet/protocol/routes";
import { useEffect, useState } from "react";
import { useMay } from "../../api/session.ts";
import { Bytes, byteText, Card, Command, Progress, Section, shellLine } from "../../ui/index.ts";
import { FileChooser, PageDrop } from "./file-drop.tsx";
import { startPush, usePushes } from "./pushes.ts";
import { useDigest } from "./use-digest.ts";

/** Resumes the upload of a release whose artifact is missing. */
export function ContinueUpload({ release }: { release: Release }) {
  const may_push = useMay("operator");
  const is_under_way = usePushes().some(({ release_id }) => release_id === release.id);
  if (release.artifact_state !== "awaiting_upload" || is_under_way) return null;
  return (
    <Section title="Awaiting upload">
      <Card>
        <p className="mb-3">
          Deployments of this release wait for the upload. Data of an interrupted upload is kept for one day, and the upload resumes from
          there.
        </p>
        {may_push && <Chosen release={release} />}
        <Command>{shellLine("rf", "releases", "push", "FILE", "--tag", release.tag, "--kind", release.kind, "--app", release.app)}</Command>
      </Card>
    </Section>
  );
}

function Chosen({ release }: { release: Release }) {
  const { artifact_size, artifact_sha256 } = release;
  const [file, setFile] = useState<File>();
  // Compute the digest only of a file with the right size.
  const digest = useDigest(file?.size === artifact_size ? file : undefined);
  useEffect(() => {
    if (file !== undefined && digest.sha256 === artifact_sha256) startPush(release, file);
  }, [digest.sha256, file, artifact_sha256, release]);
  const problem =
    file === undefined
      ? undefined
      : file.size !== artifact_size
        ? `Wrong file: it has ${file.size} bytes, the release has ${artifact_size}.`
        : digest.error !== undefined
          ? `The file cannot be read: ${digest.error}`
          : digest.sha256 !== undefined && digest.sha256 !== artifact_sha256
            ? "Wrong file: it has the size of the release, but different content."
            : undefined;
  return (
    <div className="mb-3">
      <PageDrop onFile={setFile}>Drop the file to resume the upload</PageDrop>
      <FileChooser
        label="Choose file"
        hint={
          <>
            or drop it anywhere on this page. Size: <Bytes count={artifact_size} />
          </>
        }
        onFile={setFile}
      />
      {problem !== undefined && (
        <p role="alert" className="mt-2 text-bad">
          {problem}
        </p>
      )}
      {file !== undefined && problem === undefined && digest.sha256 === undefined && (
        <div className="mt-3">
          <Progress label="Reading file" total={file.size} parts={[{ value: digest.done_bytes, tone: "info", label: "read" }]} />
          <p className="mt-1 text-xs text-muted tabular-nums">
            Reading: {byteText(digest.done_bytes)} of {byteText(file.size)}
          </p>
        </div>
      )}
    </div>
  );
}
