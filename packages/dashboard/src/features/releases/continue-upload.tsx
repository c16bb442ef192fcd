import type { Release } from "@roamfleet/protocol/routes";
import { useEffect, useState } from "react";
import { useMay } from "../../api/session.ts";
import { Bytes, byteText, Card, Command, Progress, Section, shellLine } from "../../ui/index.ts";
import { FileChooser, PageDrop } from "./file-drop.tsx";
import { startPush, usePushes } from "./pushes.ts";
import { useDigest } from "./use-digest.ts";

/** A release whose content is not there yet: whoever has the file goes on with its upload. */
export function ContinueUpload({ release }: { release: Release }) {
  const may_push = useMay("operator");
  const is_under_way = usePushes().some(({ release_id }) => release_id === release.id);
  if (release.artifact_state !== "awaiting_upload" || is_under_way) return null;
  return (
    <Section title="Awaiting its upload">
      <Card>
        <p className="mb-3">
          Deployments of it wait until its content is there. What an earlier try brought is kept for a day, and the upload goes on from
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
  // Only a file of the right length is worth reading.
  const digest = useDigest(file?.size === artifact_size ? file : undefined);
  useEffect(() => {
    if (file !== undefined && digest.sha256 === artifact_sha256) startPush(release, file);
  }, [digest.sha256, file, artifact_sha256, release]);
  const problem =
    file === undefined
      ? undefined
      : file.size !== artifact_size
        ? `This file has ${file.size} bytes, the release ${artifact_size}: it is another one.`
        : digest.error !== undefined
          ? `It cannot be read: ${digest.error}`
          : digest.sha256 !== undefined && digest.sha256 !== artifact_sha256
            ? "This file has the right size, but other content than the release."
            : undefined;
  return (
    <div className="mb-3">
      <PageDrop onFile={setFile}>Drop it to go on with the upload</PageDrop>
      <FileChooser
        label="Choose the file"
        hint={
          <>
            or drop it anywhere on this page; it has <Bytes count={artifact_size} />
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
          <Progress label="Reading the file" total={file.size} parts={[{ value: digest.done_bytes, tone: "info", label: "read" }]} />
          <p className="mt-1 text-xs text-muted tabular-nums">
            Reading it: {byteText(digest.done_bytes)} of {byteText(file.size)}
          </p>
        </div>
      )}
    </div>
  );
}
