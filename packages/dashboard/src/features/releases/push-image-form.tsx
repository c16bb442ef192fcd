import type { Release } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { Button, Command, shellLine, TextInput } from "../../ui/index.ts";
import { OtherRefusal, readManifest, ReleaseFields, useCreateRelease, useDescribed } from "./release-fields.tsx";
import { imageDigest } from "./image-reference.ts";

/** The form for a release from an image that robots pull from its registry. */
export function PushImageForm({ onCreated }: { onCreated: (release: Release) => void }) {
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
        onChange={(event) => setImage(event.target.value)}
        hint="With its digest, which `docker buildx imagetools inspect IMAGE` shows"
        error={
          image === "" || sha256 !== undefined
            ? undefined
            : "Must end in @sha256: and 64 hex digits, because a tag can later refer to another image."
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
