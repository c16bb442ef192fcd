import { isCounter, unitOf } from "@roamfleet/protocol/metric-values";
import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import { ObjectPicker } from "../../api/object-picker.tsx";
import { query } from "../../api/queries.ts";
import { type Panel, PANEL_ROBOTS_MAX } from "../../search.ts";
import { BarSelect, cx, Finder, TextLine } from "../../ui/index.ts";
import { UNIT_TEXTS } from "../robots/metric-charts.ts";
import { AGGREGATIONS } from "./explorer.ts";

const FOUND_MAX = 50;
type Scope = "all" | "site" | "fleet" | "robots" | "label";
const SCOPES: readonly { value: Scope; label: string }[] = [
  { value: "all", label: "All robots" },
  { value: "site", label: "Site" },
  { value: "fleet", label: "Fleet" },
  { value: "robots", label: "Robots" },
  { value: "label", label: "Label" },
];
const GROUPS = [
  { value: "none", label: "No grouping" },
  { value: "robot", label: "By robot" },
  { value: "site", label: "By site" },
  { value: "fleet", label: "By fleet" },
  { value: "label", label: "By label" },
];

interface FieldsProps {
  panel: Panel;
  /** The metric that is shown. */
  name: string;
  names: readonly string[];
  /** Sets parts of the panel; removes those that are undefined. */
  onChange: (part: Panel) => void;
}

/** The query of a panel: metric, scope, groups and aggregation. */
export function PanelFields({ panel, name, names, onChange }: FieldsProps) {
  return (
    <div className="mb-2 flex flex-wrap items-start gap-2" role="group" aria-label={`Query of ${name}`}>
      <MetricFinder name={name} names={names} onChoose={(next) => onChange({ name: next, only: undefined })} />
      <ScopeFields panel={panel} onChange={onChange} />
      <GroupFields group_by={panel.group_by} onChange={onChange} />
      <BarSelect
        label="Aggregation"
        value={panel.aggregation ?? "avg"}
        options={AGGREGATIONS}
        onValue={(value) => onChange({ aggregation: AGGREGATIONS.find((one) => one.value === value)?.value })}
      />
    </div>
  );
}

/** The unit of a metric by its name, for the list of metrics. */
function unitHint(name: string): string {
  const unit = unitOf(name);
  return `${unit === "bytes" ? "bytes" : UNIT_TEXTS[unit]}${isCounter(name) ? " per second" : ""}`;
}

/** Selects a metric. A name that is not in the list can be typed: robots may have sent it earlier. */
function MetricFinder({ name, names, onChoose }: { name: string; names: readonly string[]; onChoose: (name: string) => void }) {
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const found = names.filter((one) => one.toLowerCase().includes(wanted)).slice(0, FOUND_MAX);
  return (
    <Finder
      label="Metric"
      compact
      free
      className="w-64 max-w-full"
      chosen={name === "" ? undefined : name}
      text={text}
      onText={setText}
      found={found.map((value) => ({ value, label: value, hint: unitHint(value) }))}
      is_looking={false}
      onChoose={onChoose}
    />
  );
}

const NO_SCOPE: Panel = { site_id: undefined, fleet_id: undefined, robot_id: undefined, label: undefined, only: undefined };

const scopeOf = ({ site_id, fleet_id, robot_id, label }: Panel): Scope =>
  site_id !== undefined
    ? "site"
    : fleet_id !== undefined
      ? "fleet"
      : robot_id !== undefined
        ? "robots"
        : label !== undefined
          ? "label"
          : "all";

function ScopeFields({ panel, onChange }: Pick<FieldsProps, "panel" | "onChange">) {
  // Until an object is chosen, the query is still that of all robots.
  const [begun, setBegun] = useState<Scope>();
  const scope = begun ?? scopeOf(panel);
  const put = (part: Panel): void => {
    setBegun(undefined);
    onChange({ ...NO_SCOPE, ...part });
  };
  const choose = (next: Scope): void => (next === "all" ? put({}) : setBegun(next));
  return (
    <>
      <BarSelect label="Scope" value={scope} options={SCOPES} onValue={(value) => choose(value as Scope)} />
      {scope === "site" && (
        <ObjectPicker
          kind="site"
          label="Site"
          compact
          id={panel.site_id}
          placeholder="Choose a site"
          onChoose={(id) => put({ site_id: id })}
        />
      )}
      {scope === "fleet" && (
        <ObjectPicker
          kind="fleet"
          label="Fleet"
          compact
          id={panel.fleet_id}
          placeholder="Choose a fleet"
          onChoose={(id) => put({ fleet_id: id })}
        />
      )}
      {scope === "robots" && <RobotFields ids={panel.robot_id ?? []} panel={panel} onPut={put} />}
      {scope === "label" && (
        <TextField
          key={panel.label}
          label="Label"
          placeholder="KEY:VALUE"
          value={panel.label ?? ""}
          pattern={/^[^:]+:.+$/}
          onValue={(label) => put({ label })}
        />
      )}
    </>
  );
}

const NAMES_MAX = 1_000;

/** The robots of a query as removable chips, and a field that adds one. */
function RobotFields({ ids, panel, onPut }: { ids: readonly string[]; panel: Panel; onPut: (part: Panel) => void }) {
  const robots = useQuery({ ...query("listRobots", { query: { fields: "id,name", limit: NAMES_MAX } }), enabled: ids.length > 0 });
  const nameOf = (id: string): string => robots.data?.items.find((robot) => robot.id === id)?.name ?? id;
  const add = (id: string): void => {
    if (ids.includes(id)) return;
    // Several robots are compared, unless the user chose other groups.
    onPut({ robot_id: [...ids, id], group_by: panel.group_by ?? "robot" });
  };
  return (
    <>
      {ids.map((id) => (
        <span key={id} className="inline-flex h-8 max-w-56 items-center gap-1 rounded-md bg-active pr-1 pl-2.5">
          <TextLine>{nameOf(id)}</TextLine>
          <button
            type="button"
            aria-label={`Remove ${nameOf(id).slice(0, 80)}`}
            className="rounded p-1 hover:bg-hover"
            onClick={() => {
              const rest = ids.filter((one) => one !== id);
              onPut(rest.length === 0 ? {} : { robot_id: rest });
            }}
          >
            <X size={16} aria-hidden />
          </button>
        </span>
      ))}
      {ids.length < PANEL_ROBOTS_MAX && (
        <ObjectPicker
          // An empty field for the next robot.
          key={ids.length}
          kind="robot"
          label="Robot"
          compact
          id={undefined}
          placeholder={ids.length === 0 ? "Choose a robot" : "Add a robot"}
          onChoose={add}
        />
      )}
    </>
  );
}

function GroupFields({ group_by, onChange }: { group_by: string | undefined; onChange: (part: Panel) => void }) {
  const [begun, setBegun] = useState(false);
  const is_label = begun || group_by?.startsWith("label:") === true;
  return (
    <>
      <BarSelect
        label="Group by"
        value={is_label ? "label" : (group_by ?? "none")}
        options={GROUPS}
        onValue={(value) => {
          setBegun(value === "label");
          if (value !== "label") onChange({ group_by: value === "none" ? undefined : value, only: undefined });
        }}
      />
      {is_label && (
        <TextField
          key={group_by}
          label="Label key"
          placeholder="Key, such as zone"
          value={group_by?.startsWith("label:") === true ? group_by.slice("label:".length) : ""}
          pattern={/^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$/}
          onValue={(key) => {
            setBegun(false);
            onChange({ group_by: `label:${key}`, only: undefined });
          }}
        />
      )}
    </>
  );
}

/** A text that takes effect with Enter, or when the field loses the focus. */
function TextField({
  label,
  placeholder,
  value,
  pattern,
  onValue,
}: {
  label: string;
  placeholder: string;
  value: string;
  pattern: RegExp;
  onValue: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  const typed = text.trim();
  const is_valid = pattern.test(typed);
  const commit = (): void => {
    if (is_valid && typed !== value) onValue(typed);
  };
  return (
    <input
      aria-label={label}
      aria-invalid={typed !== "" && !is_valid}
      placeholder={placeholder}
      maxLength={200}
      value={text}
      onChange={({ target }) => setText(target.value)}
      onBlur={commit}
      onKeyDown={({ key }) => key === "Enter" && commit()}
      className={cx("h-8 w-44 rounded-md border border-line-strong bg-surface px-2.5 placeholder:text-muted aria-invalid:border-bad")}
    />
  );
}
