import { useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { query } from "../../api/queries.ts";
import { Segments } from "../../ui/index.ts";
import { Finder } from "./finder.tsx";
import { useTyped } from "./use-typed.ts";

const FOUND_MAX = 20;

export interface Target {
  kind: "robot" | "fleet";
  id: string;
}

const KINDS = [
  { value: "fleet", label: "A fleet" },
  { value: "robot", label: "One robot" },
] as const;

interface PickerParts {
  target: Target | undefined;
  onChoose: (target: Target) => void;
  onTyping: (is_typing: boolean) => void;
  error: string | undefined;
}

/** Selects a fleet or a robot. */
export function TargetPicker({ kind, onKind, ...rest }: PickerParts & { kind: Target["kind"]; onKind: (kind: Target["kind"]) => void }) {
  return (
    <>
      <div className="mb-2">
        <p className="mb-1 font-medium" aria-hidden>
          To
        </p>
        <Segments label="Target" options={KINDS} value={kind} onChange={onKind} />
      </div>
      {kind === "fleet" ? <FleetPicker {...rest} /> : <RobotPicker {...rest} />}
    </>
  );
}

function FleetPicker({ target, onChoose, onTyping, error }: PickerParts) {
  const [text, setText] = useTyped(onTyping);
  const q = useDeferredValue(text.trim());
  const found = useQuery(query("listFleets", { query: { limit: FOUND_MAX, ...(q === "" ? {} : { q }) } }));
  const chosen = useQuery({ ...query("getFleet", { params: { id: target?.id ?? "" } }), enabled: target !== undefined });
  return (
    <Finder
      label="Fleet"
      chosen={target === undefined ? undefined : (chosen.data?.data.name ?? target.id)}
      text={text}
      onText={setText}
      found={(found.data?.items ?? []).map(({ id, name }) => ({ value: id, label: name }))}
      is_looking={found.isPending}
      onChoose={(id) => onChoose({ kind: "fleet", id })}
      error={chosen.isError ? `Fleet ${target?.id ?? ""} does not exist` : error}
      note="All robots that are in the fleet at the start."
    />
  );
}

function RobotPicker({ target, onChoose, onTyping, error }: PickerParts) {
  const [text, setText] = useTyped(onTyping);
  const q = useDeferredValue(text.trim());
  const found = useQuery(query("listRobots", { query: { limit: FOUND_MAX, ...(q === "" ? {} : { q }) } }));
  const chosen = useQuery({ ...query("getRobot", { params: { id: target?.id ?? "" } }), enabled: target !== undefined });
  return (
    <Finder
      label="Robot"
      chosen={target === undefined ? undefined : (chosen.data?.data.name ?? target.id)}
      text={text}
      onText={setText}
      found={(found.data?.items ?? []).map(({ id, name, status }) => ({ value: id, label: name, hint: status.replaceAll("_", " ") }))}
      is_looking={found.isPending}
      onChoose={(id) => onChoose({ kind: "robot", id })}
      error={chosen.isError ? `Robot ${target?.id ?? ""} does not exist` : error}
      note="Waves and failure limits apply to fleets only."
    />
  );
}
