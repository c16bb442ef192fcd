import type { Release } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { query } from "../../api/queries.ts";
import { byteText, StatusBadge } from "../../ui/index.ts";
import { Finder } from "./finder.tsx";
import { useTyped } from "./use-typed.ts";

const FOUND_MAX = 20;
const ID = /^rel_[0-9a-z]{26}$/;

export interface ChosenRelease {
  /** The ID or tag from the URL. */
  name: string | undefined;
  release: Release | undefined;
  /** Whether no release has this ID or tag. */
  is_missing: boolean;
}

/** Loads a release by its ID or tag. */
export function useRelease(name: string | undefined): ChosenRelease {
  const is_id = name !== undefined && ID.test(name);
  const by_id = useQuery({ ...query("getRelease", { params: { id: name ?? "" } }), enabled: is_id });
  const by_tag = useQuery({ ...query("listReleases", { query: { tag: name ?? "", limit: 1 } }), enabled: name !== undefined && !is_id });
  const release = is_id ? by_id.data?.data : by_tag.data?.items[0];
  const is_missing = name !== undefined && release === undefined && (is_id ? by_id.isError : by_tag.isSuccess);
  return { name, release, is_missing };
}

const FROM: Record<Release["artifact_state"], string> = {
  stored: "",
  awaiting_upload: "The artifact is not uploaded yet: robots wait for it.",
  external: "Robots pull the image from its registry.",
};

/** Selects a release by tag. */
export function ReleasePicker({
  chosen: { name, release, is_missing },
  onChoose,
  onTyping,
  error,
}: {
  chosen: ChosenRelease;
  onChoose: (tag: string) => void;
  onTyping: (is_typing: boolean) => void;
  error: string | undefined;
}) {
  const [text, setText] = useTyped(onTyping);
  const q = useDeferredValue(text.trim());
  const found = useQuery(query("listReleases", { query: { limit: FOUND_MAX, ...(q === "" ? {} : { q }) } }));
  const missing = is_missing ? `Release ${name ?? ""} does not exist. Choose one from the list, or push it first.` : undefined;
  return (
    <Finder
      free
      label="Release"
      chosen={release?.tag ?? name}
      text={text}
      onText={setText}
      found={(found.data?.items ?? []).map(({ tag, app, artifact_state }) => ({
        value: tag,
        label: tag,
        hint: `app ${app}`,
        mark: artifact_state === "awaiting_upload" ? <StatusBadge status={artifact_state} /> : undefined,
      }))}
      onChoose={onChoose}
      is_looking={found.isPending}
      error={missing ?? error}
      note={
        release === undefined
          ? "Search by tag."
          : `app ${release.app}, ${release.kind.replaceAll("_", " ")}, ${byteText(release.artifact_size)}. ${FROM[release.artifact_state]}`
      }
    />
  );
}
