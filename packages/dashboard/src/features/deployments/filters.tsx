import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { type ReactNode, useDeferredValue, useState } from "react";
import { query } from "../../api/queries.ts";
import { IconButton, Time } from "../../ui/index.ts";
import { Finder } from "./finder.tsx";

const FOUND_MAX = 10;

interface FilterParts {
  id: string | undefined;
  onChange: (id: string | undefined) => void;
}

const asked = (text: string): { limit: number; q?: string } => ({ limit: FOUND_MAX, ...(text === "" ? {} : { q: text }) });

/** Filters deployments by release. */
export function ReleaseFilter({ id, onChange }: FilterParts) {
  const [text, setText] = useState("");
  const found = useQuery(query("listReleases", { query: asked(useDeferredValue(text.trim())) }));
  const chosen = useQuery({ ...query("getRelease", { params: { id: id ?? "" } }), enabled: id !== undefined });
  return (
    <Removable id={id} label="release" onChange={onChange}>
      <Finder
        compact
        label="Release: any"
        chosen={id === undefined ? undefined : (chosen.data?.data.tag ?? id)}
        text={text}
        onText={setText}
        found={(found.data?.items ?? []).map((release) => ({ value: release.id, label: release.tag, hint: release.app }))}
        is_looking={found.isPending}
        onChoose={onChange}
      />
    </Removable>
  );
}

/** Filters deployments by a target robot. */
export function RobotFilter({ id, onChange }: FilterParts) {
  const [text, setText] = useState("");
  const found = useQuery(query("listRobots", { query: asked(useDeferredValue(text.trim())) }));
  const chosen = useQuery({ ...query("getRobot", { params: { id: id ?? "" } }), enabled: id !== undefined });
  return (
    <Removable id={id} label="robot" onChange={onChange}>
      <Finder
        compact
        label="Robot: any"
        chosen={id === undefined ? undefined : (chosen.data?.data.name ?? id)}
        text={text}
        onText={setText}
        found={(found.data?.items ?? []).map((robot) => ({ value: robot.id, label: robot.name }))}
        is_looking={found.isPending}
        onChoose={onChange}
      />
    </Removable>
  );
}

/** Shows the filter by creation time, which links set, and removes it. */
export const SinceFilter = ({ since, onRemove }: { since: string; onRemove: () => void }) => (
  <span className="flex h-8 items-center gap-1 rounded-md border border-line-strong pl-2.5">
    <span>
      Since <Time at={since} exact />
    </span>
    <IconButton label="Any time" icon={<X size={14} aria-hidden />} onClick={onRemove} />
  </span>
);

function Removable({ id, label, onChange, children }: FilterParts & { label: string; children: ReactNode }) {
  return (
    <div className="flex items-center">
      {children}
      {id !== undefined && <IconButton label={`Any ${label}`} icon={<X size={14} aria-hidden />} onClick={() => onChange(undefined)} />}
    </div>
  );
}
