import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useDeferredValue } from "react";
import { ObjectPicker } from "../../api/object-picker.tsx";
import { query, usePlaces } from "../../api/queries.ts";
import type { NewDeploymentSearch } from "../../search.ts";
import { counted, hasFailed, IconButton, namedOptions, Segments, Select, TextInput } from "../../ui/index.ts";
import { LABELS_WANTED, parseLabels, robotsFilter, type Target, type TargetKind } from "./target.ts";

const KINDS = [
  { value: "fleet", label: "A fleet" },
  { value: "robot", label: "One robot" },
  { value: "selection", label: "A selection" },
] as const;

interface TargetPickerProps {
  kind: TargetKind;
  onKind: (kind: TargetKind) => void;
  chosen: NewDeploymentSearch;
  onChoose: (part: Partial<NewDeploymentSearch>) => void;
  /** Robots that were selected in the list of robots. */
  robot_ids: readonly string[];
  onClearRobots: () => void;
  target: Target | undefined;
  /** Number of robots in the preview; undefined while there is no current one. */
  total: number | undefined;
  onTyping: (is_typing: boolean) => void;
  error: string | undefined;
}

/** Chooses one robot, a fleet, or the robots that match a site, a fleet and labels. */
export function TargetPicker(props: TargetPickerProps) {
  const { kind, onKind, chosen, onChoose, onTyping, error } = props;
  return (
    <>
      <div className="mb-2">
        <p className="mb-1 font-medium" aria-hidden>
          To
        </p>
        <Segments label="Target" options={KINDS} value={kind} onChange={onKind} />
      </div>
      {kind === "selection" ? (
        <SelectionPicker {...props} />
      ) : (
        <ObjectPicker
          key={kind}
          kind={kind}
          label={kind === "fleet" ? "Fleet" : "Robot"}
          id={kind === "fleet" ? chosen.fleet_id : chosen.robot_id}
          hints={kind === "robot"}
          onChoose={(id) => onChoose(kind === "fleet" ? { fleet_id: id } : { robot_id: id })}
          note={
            kind === "fleet"
              ? "Deploys to all robots that are in the fleet when the deployment starts."
              : "Waves and failure limits do not apply to one robot."
          }
          onTyping={onTyping}
          error={error}
        />
      )}
    </>
  );
}

function SelectionPicker({ chosen, onChoose, robot_ids, onClearRobots, target, total, error }: TargetPickerProps) {
  const { sites, fleets, is_read, has_failed } = usePlaces();
  const unknown = has_failed ? "not loaded" : is_read ? "not available" : "…";
  const { site_id = "", fleet_id = "", labels = "" } = chosen;
  const of_site = fleets.filter((fleet) => site_id === "" || fleet.site_id === site_id || fleet.id === fleet_id);
  const is_wrong = labels !== "" && parseLabels(labels) === undefined;
  return (
    <>
      {robot_ids.length > 0 && (
        <p className="mb-3 flex items-center gap-2 rounded-md border border-line bg-raised px-3 py-1">
          <span className="flex-1 tabular-nums">{`Only the ${counted(robot_ids.length, "robot")} selected in the list of robots`}</span>
          <IconButton label="Remove the limit to these robots" icon={X} onClick={onClearRobots} />
        </p>
      )}
      <div className="grid gap-x-4 sm:grid-cols-2">
        <Select
          label="Site"
          value={site_id}
          options={[{ value: "", label: "Any site" }, ...withUnknown(namedOptions(sites), site_id, `Site: ${unknown}`)]}
          onValue={(id) => onChoose({ site_id: id || undefined })}
        />
        <Select
          label="Fleet"
          value={fleet_id}
          options={[{ value: "", label: "Any fleet" }, ...withUnknown(namedOptions(of_site), fleet_id, `Fleet: ${unknown}`)]}
          onValue={(id) => onChoose({ fleet_id: id || undefined })}
        />
      </div>
      <TextInput
        label="Labels"
        placeholder="line=3, zone=a"
        value={labels}
        error={is_wrong ? LABELS_WANTED : error}
        hint="A robot must have all of them. Robots that match only after the start are not included."
        onValue={(text) => onChoose({ labels: text.trim() === "" ? undefined : text })}
      />
      <p role="status" className="mb-3 text-muted tabular-nums">
        {target?.kind === "selection" ? <MatchCount target={target} total={total} /> : "Choose a site, a fleet or labels."}
      </p>
    </>
  );
}

/** Adds the chosen id as an option if the list does not contain it. Without it, the select would show a wider target than the form has. */
const withUnknown = (options: { value: string; label: string }[], chosen: string, label: string) =>
  chosen === "" || options.some(({ value }) => value === chosen) ? options : [...options, { value: chosen, label }];

/** Robots that are counted while there is no preview. */
const COUNTED_MAX = 200;

/** The number of robots that match now. Before there is a preview, counts them in the list of robots. */
function MatchCount({ target: { selector }, total }: { target: Extract<Target, { kind: "selection" }>; total: number | undefined }) {
  const deferred = useDeferredValue(selector);
  const { robot_ids } = deferred;
  const filter = robotsFilter(deferred);
  const is_listed = filter !== undefined;
  const counting = useQuery({
    ...query("listRobots", { query: { ...filter, limit: COUNTED_MAX } }),
    enabled: total === undefined && is_listed,
  });
  if (total !== undefined) return total === 0 ? "No robot matches now." : `Matches ${counted(total, "robot")} now.`;
  if (hasFailed(counting)) return "Not loaded: the number of matching robots.";
  if (counting.isError || (robot_ids === undefined && !is_listed)) return "The number of matching robots is not available.";
  const listed = counting.data;
  if (listed === undefined) return robot_ids === undefined ? "Counting…" : `At most ${counted(robot_ids.length, "robot")}.`;
  if (listed.next_cursor !== null) return `Matches more than ${counted(COUNTED_MAX, "robot")} now.`;
  return listed.items.length === 0 ? "No robot matches now." : `Matches ${counted(listed.items.length, "robot")} now.`;
}
