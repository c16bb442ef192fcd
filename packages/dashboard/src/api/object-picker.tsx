import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useState } from "react";
import { Finder, type FinderProps, isNotFound, useOutage } from "../ui/index.ts";
import { query } from "./queries.ts";

const FOUND_MAX = 20;
const ROUTES = {
  site: { list: "listSites", get: "getSite" },
  fleet: { list: "listFleets", get: "getFleet" },
  robot: { list: "listRobots", get: "getRobot" },
  release: { list: "listReleases", get: "getRelease" },
} as const;
type Kind = keyof typeof ROUTES;

/** The fields that contain an object's name: `tag` for releases, `name` for all others. */
interface Shown {
  id: string;
  name?: string;
  tag?: string;
  app?: string;
  status?: string;
}

interface ObjectPickerProps extends Pick<FinderProps, "label" | "note" | "error" | "compact" | "placeholder" | "className" | "onChoose"> {
  kind: Kind;
  /** The ID of the selected object. */
  id: string | undefined;
  /** Whether the list shows the app or status beside the names. */
  hints?: boolean;
  /** Called with true while the field contains typed text, which replaces the previous selection, otherwise with false. */
  onTyping?: (is_typing: boolean) => void;
}

/** Selects a site, fleet, robot or release by name. Searches on the server, so that the number of objects does not matter. */
export function ObjectPicker({ kind, id, hints = false, onTyping, error, ...finder }: ObjectPickerProps) {
  const [text, setText] = useTyped(onTyping);
  const { list, get } = ROUTES[kind];
  const found = useQuery(query(list, { query: searchQuery(useDeferredValue(text.trim())) }));
  const chosen = useQuery({ ...query(get, { params: { id: id ?? "" } }), enabled: id !== undefined });
  const shown = chosen.data?.data as Shown | undefined;
  // The object is missing only after a 404. Other errors, such as an outage, do not prove that.
  const is_missing = isNotFound(chosen.error);
  // While nothing is searched, only the name of the selected object is needed. During an outage, the frame of all pages shows the reason.
  const is_outage = useOutage() !== undefined;
  const failure = is_outage
    ? null
    : text === "" && (finder.compact === true || shown !== undefined)
      ? chosen.error
      : (chosen.error ?? found.error);
  const items = (found.data?.items ?? []) as readonly Shown[];
  return (
    <Finder
      {...finder}
      chosen={shown?.name ?? shown?.tag ?? id}
      text={text}
      onText={setText}
      found={items.map(({ id: value, name, tag, app, status }) => ({
        value,
        label: name ?? tag ?? value,
        ...(hints ? { hint: app ?? status?.replaceAll("_", " ") } : {}),
      }))}
      // After a failure, no object is missing: the search is repeated.
      is_looking={found.isPending || found.isError}
      failure={notLoaded(found.error ?? found.failureReason)}
      error={is_missing ? `This ${kind} does not exist. Choose another one.` : (notLoaded(failure) ?? error)}
    />
  );
}

/** Returns the text below a picker whose objects could not be loaded; undefined without an error. */
export const notLoaded = (error: Error | null): string | undefined => (error === null ? undefined : `Not loaded: ${error.message}`);

/** Returns the list query for the text typed so far. */
export const searchQuery = (q: string): { limit: number; q?: string } => ({ limit: FOUND_MAX, ...(q === "" ? {} : { q }) });

/** Returns the text typed into a finder, and its setter. Calls `onTyping` with whether the text is not blank. */
export function useTyped(onTyping: ((is_typing: boolean) => void) | undefined): [string, (text: string) => void] {
  const [text, setText] = useState("");
  // An unmounted field loses its text, so the user is no longer typing.
  useEffect(() => () => onTyping?.(false), [onTyping]);
  const type = (next: string): void => {
    setText(next);
    onTyping?.(next.trim() !== "");
  };
  return [text, type];
}
