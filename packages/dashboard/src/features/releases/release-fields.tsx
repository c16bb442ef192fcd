import type { Release } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk/browser";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { ErrorText, JsonInput, readJson, Select, TextArea, TextInput } from "../../ui/index.ts";

/** The metadata of a release. `manifest` is the unparsed text. */
export interface Described {
  tag: string;
  app: string;
  kind: string;
  notes: string;
  manifest: string;
}

const KINDS = [
  { value: "container_image", label: "Container image" },
  { value: "app_bundle", label: "App bundle" },
  { value: "file", label: "File" },
  { value: "os_image", label: "OS image" },
  { value: "agent", label: "Agent" },
];
/** Release kinds for which the form has no manifest field, because the artifact contains all settings. */
export const KINDS_WITHOUT_MANIFEST: readonly string[] = ["app_bundle", "os_image", "agent"];
const OTHER = "other";

/** The state of the fields, with the defaults of `rf releases push` until the user edits them. */
export function useDescribed(defaults: Described): [Described, (change: Partial<Described>) => void] {
  const [written, setWritten] = useState<Partial<Described>>({});
  return [{ ...defaults, ...written }, (change) => setWritten((before) => ({ ...before, ...change }))];
}

/** Parses the manifest. Returns a problem if it is not a JSON object, and no manifest for an empty text. */
export function readManifest(text: string): { manifest?: Record<string, unknown> } | { problem: string } {
  if (text.trim() === "") return {};
  const read = readJson(text);
  if ("problem" in read) return read;
  if (typeof read.value !== "object" || read.value === null || Array.isArray(read.value))
    return { problem: "The manifest must be a JSON object." };
  return { manifest: read.value as Record<string, unknown> };
}

export function ReleaseFields({
  described,
  onChange,
  error,
  is_image = false,
  note,
}: {
  described: Described;
  onChange: (change: Partial<Described>) => void;
  error: unknown;
  is_image?: boolean;
  note?: string | undefined;
}) {
  const { tag, app, kind, notes, manifest } = described;
  const is_taken = error instanceof ApiError && error.status === 409;
  const of_manifest = error instanceof Error && error.message.startsWith("field manifest") ? error.message : undefined;
  const read = readManifest(manifest);
  return (
    <>
      <div className="grid gap-x-4 sm:grid-cols-2">
        <TextInput
          label="Tag"
          required
          maxLength={200}
          value={tag}
          onValue={(tag) => onChange({ tag })}
          hint="Unique in the organization. Cannot be changed later."
          error={is_taken ? `${error.message}. The content of a tag cannot change: choose another tag.` : undefined}
        />
        <TextInput
          label="App"
          required
          pattern="[a-z0-9][a-z0-9._\-]{0,62}"
          value={app}
          onValue={(app) => onChange({ app })}
          hint="The app of this release. A robot runs one release per app."
        />
      </div>
      {!is_image && <KindField kind={kind} note={note} onChange={(next) => onChange({ kind: next })} />}
      <TextArea label="Release notes" rows={2} maxLength={20_000} value={notes} onValue={(notes) => onChange({ notes })} hint="Optional" />
      {!KINDS_WITHOUT_MANIFEST.includes(kind) && (
        <JsonInput
          label="Manifest"
          optional
          rows={3}
          value={manifest}
          onChange={(text) => onChange({ manifest: text })}
          hint={
            kind === "file"
              ? "Optional JSON that defines the path of the file on robots"
              : "Optional JSON that defines how the container runs"
          }
          error={of_manifest ?? ("problem" in read ? read.problem : undefined)}
        />
      )}
    </>
  );
}

/** Selects a kind: a built-in one, or a custom kind of the user's agents. */
function KindField({ kind, note, onChange }: { kind: string; note: string | undefined; onChange: (kind: string) => void }) {
  const is_known = KINDS.some(({ value }) => value === kind);
  return (
    <div className="grid gap-x-4 sm:grid-cols-2">
      <Select
        label="Kind"
        value={is_known ? kind : OTHER}
        options={[...KINDS, { value: OTHER, label: "Custom kind" }]}
        onValue={(value) => onChange(value === OTHER ? "" : value)}
        hint={note ?? "Defines how robots install the release"}
      />
      {!is_known && (
        <TextInput
          label="Kind name"
          required
          pattern="[a-z0-9][a-z0-9._\-]{0,62}"
          value={kind}
          onValue={onChange}
          hint="Robots whose agent does not support this kind refuse the release"
        />
      )}
    </div>
  );
}

/** Creates the release, or returns the existing one with this tag and content. */
export function useCreateRelease(onCreated: (release: Release) => void) {
  return useAction("createRelease", { quiet: true, onSuccess: ({ data }) => onCreated(data) });
}

/** Shows an error of the server that belongs to no field of the form. */
export function OtherRefusal({ error }: { error: Error | null }) {
  const is_shown = (error instanceof ApiError && error.status === 409) || error?.message.startsWith("field manifest") === true;
  return <ErrorText error={is_shown ? null : error} className="mb-3" />;
}
