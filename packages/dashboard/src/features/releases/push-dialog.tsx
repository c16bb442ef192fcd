import type { Release } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Dialog, Segments, tellDone } from "../../ui/index.ts";
import { FileChooser } from "./file-drop.tsx";
import { PushFileForm } from "./push-file-form.tsx";
import { PushImageForm } from "./push-image-form.tsx";
import { startPush } from "./pushes.ts";
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
    tellDone(
      release.artifact_state === "awaiting_upload"
        ? `${release.tag.slice(0, 80)} is awaiting its upload`
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
          hint="or drop it anywhere on this page: an app bundle (tar.gz), an image archive (docker save), or any file"
          onFile={onFile}
        />
      )}
      {!is_image && file !== undefined && (
        <PushFileForm key={`${file.name} ${file.size} ${file.lastModified}`} file={file} onCreated={created} />
      )}
    </Dialog>
  );
}
