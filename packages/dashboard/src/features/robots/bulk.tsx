import type { BulkOutcome, Robot } from "@roamfleet/protocol/routes";
import { SELECTED_ROBOTS_MAX } from "@roamfleet/protocol/states";
import { useNavigate } from "@tanstack/react-router";
import { FolderInput, Plus, Rocket, Tags, X } from "lucide-react";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { api, randomId } from "../../api/client.ts";
import { usePlaces } from "../../api/queries.ts";
import { refetchQueries } from "../../api/query-client.ts";
import {
  Badge,
  Button,
  Command,
  copyAsRf,
  counted,
  Dialog,
  IconButton,
  Menu,
  Progress,
  Select,
  Text,
  TextInput,
  TextLine,
  type Tone,
} from "../../ui/index.ts";
import { type BulkChange, bulkCommand, chunks, labelProblem, readLabel } from "./robot-text.ts";

interface BulkBarProps {
  robots: readonly Robot[];
  onClear: () => void;
  /** Selects all robots that match the filters, including those not loaded yet. Undefined if all of them are loaded. */
  onSelectAll?: () => Promise<void>;
}

/** The actions on the selected robots. */
export function BulkBar({ robots, onClear, onSelectAll }: BulkBarProps) {
  const [shown, setShown] = useState<"labels" | "move">();
  const [is_loading, setLoading] = useState(false);
  const navigate = useNavigate();
  const selectAll = (): void => {
    setLoading(true);
    void onSelectAll?.().finally(() => setLoading(false));
  };
  const close = (): void => setShown(undefined);
  const ids = robots.map(({ id }) => id);
  const deploy = (): void => void navigate({ to: "/deployments/new", search: commonPlace(robots), state: { robot_ids: ids } });
  return (
    <div
      role="region"
      aria-label="Selected robots"
      className="mb-3 flex flex-wrap items-center gap-2 rounded-lg border border-accent bg-accent-soft px-3 py-1.5"
    >
      <span className="font-medium tabular-nums" role="status">
        {`${counted(robots.length, "robot")} selected`}
      </span>
      {onSelectAll !== undefined && (
        <Button look="quiet" busy={is_loading} onClick={selectAll}>
          Select all matching robots
        </Button>
      )}
      <Button icon={Rocket} disabled={is_loading || robots.length > SELECTED_ROBOTS_MAX} onClick={deploy}>
        {`Deploy to ${robots.length.toLocaleString()} selected`}
      </Button>
      <Button icon={Tags} disabled={is_loading} busy={false} onClick={() => setShown("labels")}>
        Change labels
      </Button>
      <Button icon={FolderInput} disabled={is_loading} busy={false} onClick={() => setShown("move")}>
        Move
      </Button>
      <Menu
        label="Actions for the selected robots"
        entries={[
          copyAsRf(bulkCommand(ids, { labels: { set: { KEY: "VALUE" } } }), "Copy rf label command"),
          copyAsRf(bulkCommand(ids, { fleet_id: "FLEET" }), "Copy rf move command"),
          copyAsRf(ids.join("\n"), "Copy IDs"),
        ]}
      />
      <IconButton label="Clear selection" icon={X} onClick={onClear} className="ml-auto" />
      {shown === "labels" && <ChangeLabels robots={robots} onClose={close} />}
      {shown === "move" && <MoveRobots robots={robots} onClose={close} />}
    </div>
  );
}

/**
 * Returns the fleet, else the site, that all robots belong to. A deployment that names it is also allowed and visible to users who are
 * limited to that place.
 */
function commonPlace(robots: readonly Robot[]): { fleet_id?: string; site_id?: string } {
  const [first] = robots;
  if (first === undefined) return {};
  const { fleet_id, site_id } = first;
  if (robots.every((robot) => robot.fleet_id === fleet_id)) return { fleet_id };
  return robots.every((robot) => robot.site_id === site_id) ? { site_id } : {};
}

interface DialogParts {
  robots: readonly Robot[];
  onClose: () => void;
}

interface BulkDialogProps extends DialogParts {
  title: string;
  description: string;
  verb: string;
  /** The change to make to the robots; undefined while the user's input is incomplete. */
  change: BulkChange | undefined;
  children: ReactNode;
}

/** A dialog that changes many robots: first the input, then the progress and result. Closing it stops further requests. */
function BulkDialog({ robots, onClose, verb, change, children, ...dialog }: BulkDialogProps) {
  const bulk = useBulk(robots);
  const ids = robots.map(({ id }) => id);
  const actions = {
    idle: (
      <>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" busy={false} disabled={change === undefined} onClick={() => change !== undefined && bulk.start(change)}>
          {verb}
        </Button>
      </>
    ),
    running: <Button onClick={bulk.stop}>Stop</Button>,
    ended: (
      <Button look="primary" onClick={onClose}>
        Close
      </Button>
    ),
  };
  return (
    <Dialog open onClose={onClose} actions={actions[bulk.status === "stopped" ? "ended" : bulk.status]} {...dialog}>
      {bulk.status === "idle" ? (
        <>
          {children}
          {change !== undefined && (
            <div className="mt-3">
              <Command>{bulkCommand(ids, change)}</Command>
            </div>
          )}
        </>
      ) : (
        <BulkReport robots={robots} state={bulk} />
      )}
    </Dialog>
  );
}

/** Sets and removes labels of many robots. Other labels do not change. */
function ChangeLabels({ robots, onClose }: DialogParts) {
  const [set, setSet] = useState<Record<string, string>>({});
  const [remove, setRemove] = useState<readonly string[]>([]);
  const labels = { ...(Object.keys(set).length > 0 ? { set } : {}), ...(remove.length > 0 ? { remove: [...remove] } : {}) };
  const keys = [...new Set(robots.flatMap((robot) => Object.keys(robot.labels)))].toSorted();
  return (
    <BulkDialog
      robots={robots}
      onClose={onClose}
      title={`Change labels of ${counted(robots.length, "robot")}`}
      description="Other labels of the robots do not change."
      verb="Change labels"
      change={Object.keys(labels).length === 0 ? undefined : { labels }}
    >
      <SetLabels set={set} onChange={setSet} />
      <RemoveLabels keys={keys} chosen={remove} onChange={setRemove} />
    </BulkDialog>
  );
}

function SetLabels({ set, onChange }: { set: Record<string, string>; onChange: (set: Record<string, string>) => void }) {
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<string>();
  const add = (event: FormEvent): void => {
    event.preventDefault();
    const label = readLabel(typed);
    const wrong = label === undefined ? "Enter the label as key=value" : labelProblem(...label);
    setProblem(wrong);
    if (label === undefined || wrong !== undefined) return;
    onChange({ ...set, [label[0]]: label[1] });
    setTyped("");
  };
  return (
    <form onSubmit={add}>
      <div className="flex items-start gap-2">
        <div className="min-w-0 flex-1">
          <TextInput
            label="Label to set"
            placeholder="key=value"
            value={typed}
            error={problem}
            hint="Press Enter to add. Replaces the value on robots that already have the key."
            onValue={setTyped}
          />
        </div>
        <Button type="submit" className="mt-6" icon={Plus}>
          Add
        </Button>
      </div>
      <ul className="mb-3 flex flex-wrap gap-1.5">
        {Object.entries(set).map(([key, value]) => (
          <li key={key} className="inline-flex h-7 max-w-full items-center rounded-md bg-ok-soft pl-2 text-ok">
            <TextLine>{`${key}=${value}`}</TextLine>
            <button
              type="button"
              aria-label={`Discard label ${key}`}
              className="inline-flex size-7 shrink-0 items-center justify-center"
              onClick={() => onChange(Object.fromEntries(Object.entries(set).filter(([each]) => each !== key)))}
            >
              <X size={12} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
    </form>
  );
}

function RemoveLabels({
  keys,
  chosen,
  onChange,
}: {
  keys: readonly string[];
  chosen: readonly string[];
  onChange: (keys: string[]) => void;
}) {
  if (keys.length === 0) return null;
  return (
    <fieldset>
      <legend className="mb-1 font-medium">Labels to remove</legend>
      <div className="flex max-h-40 flex-wrap gap-1.5 overflow-y-auto">
        {keys.map((key) => (
          <button
            key={key}
            type="button"
            aria-pressed={chosen.includes(key)}
            onClick={() => onChange(chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen, key])}
            className="h-7 max-w-full rounded-md border border-line px-2 hover:bg-hover aria-pressed:border-bad aria-pressed:bg-bad-soft aria-pressed:text-bad aria-pressed:line-through"
          >
            <TextLine>{key}</TextLine>
          </button>
        ))}
      </div>
    </fieldset>
  );
}

/** Moves many robots to another fleet and its site. */
function MoveRobots({ robots, onClose }: DialogParts) {
  const [fleet_id, setFleet] = useState("");
  const there = robots.filter((robot) => robot.fleet_id === fleet_id).length;
  return (
    <BulkDialog
      robots={robots}
      onClose={onClose}
      title={`Move ${counted(robots.length, "robot")}`}
      description="The robots receive the config of their new fleet with its next config deployment. They receive its release immediately if the fleet has auto-update enabled."
      verb="Move"
      change={fleet_id === "" ? undefined : { fleet_id }}
    >
      <FleetSelect
        value={fleet_id}
        onValue={setFleet}
        hint={there === 0 ? undefined : `Already in this fleet: ${counted(there, "robot")}.`}
      />
    </BulkDialog>
  );
}

interface FleetSelectProps {
  value: string;
  onValue: (id: string) => void;
  hint?: string | undefined;
  /** ID of a fleet to leave out of the list. */
  except?: string;
}

/** A select of fleets with their sites. */
export function FleetSelect({ except, ...select }: FleetSelectProps) {
  const { fleets, site_names } = usePlaces();
  const listed = fleets.filter(({ id }) => id !== except);
  const options = listed.map(({ id, name, site_id }) => ({ value: id, label: `${name} · ${site_names.get(site_id) ?? site_id}` }));
  return <Select label="Target fleet" options={[{ value: "", label: "Select a fleet" }, ...options]} {...select} />;
}

const OUTCOMES: Record<BulkOutcome["outcome"], { text: string; tone: Tone }> = {
  changed: { text: "changed", tone: "ok" },
  unchanged: { text: "unchanged", tone: "idle" },
  not_found: { text: "not found", tone: "warn" },
  forbidden: { text: "no permission", tone: "bad" },
  conflict: { text: "refused", tone: "bad" },
};
const SHOWN_MAX = 200;

interface BulkState {
  outcomes: readonly BulkOutcome[];
  status: "idle" | "running" | "ended" | "stopped";
  error: unknown;
}

/** Changes robots in batches. After an abort or an error, sends no further batch; a batch that was sent is completed. */
function useBulk(robots: readonly Robot[]): BulkState & { start: (change: BulkChange) => void; stop: () => void } {
  const [state, setState] = useState<BulkState>({ outcomes: [], status: "idle", error: undefined });
  const ending = useRef<AbortController>(undefined);
  useEffect(() => () => ending.current?.abort(), []);
  const run = async (change: BulkChange, signal: AbortSignal): Promise<void> => {
    for (const part of chunks(robots.map(({ id }) => id))) {
      if (signal.aborted) return;
      const { items } = await api.bulkUpdateRobots({ body: { robot_ids: part, ...change }, idempotency_key: randomId() });
      setState((now) => ({ ...now, outcomes: [...now.outcomes, ...items] }));
    }
  };
  const start = (change: BulkChange): void => {
    const { signal } = (ending.current = new AbortController());
    setState({ outcomes: [], status: "running", error: undefined });
    void run(change, signal)
      .then(
        () => setState((now) => ({ ...now, status: signal.aborted ? "stopped" : "ended" })),
        (error: unknown) => setState((now) => ({ ...now, status: "stopped", error })),
      )
      .finally(() => refetchQueries());
  };
  return { ...state, start, stop: () => ending.current?.abort() };
}

/** The progress of a bulk change and the robots that were not changed. */
function BulkReport({ robots, state }: { robots: readonly Robot[]; state: BulkState }) {
  const { outcomes, status, error } = state;
  const counted = Object.entries(OUTCOMES).map(([name, { text, tone }]) => ({
    label: text,
    tone,
    value: outcomes.filter(({ outcome }) => outcome === name).length,
  }));
  const names = new Map(robots.map(({ id, name }) => [id, name]));
  const others = outcomes.filter(({ outcome }) => outcome !== "changed" && outcome !== "unchanged");
  return (
    <div>
      <Progress label={`${outcomes.length} of ${robots.length} robots`} total={robots.length} parts={counted} />
      <p role="status" className="mt-2 flex flex-wrap items-center gap-2">
        {`${outcomes.length.toLocaleString()} of ${robots.length.toLocaleString()} robots`}
        {status === "stopped" && <Badge tone="warn">stopped: remaining robots unchanged</Badge>}
        {counted
          .filter(({ value }) => value > 0)
          .map(({ label, tone, value }) => (
            <Badge key={label} tone={tone}>{`${value.toLocaleString()} ${label}`}</Badge>
          ))}
      </p>
      {error !== undefined && (
        <p role="alert" className="mt-2 text-bad">
          <Text>{error instanceof Error ? error.message : "The server is not responding."}</Text>
        </p>
      )}
      {others.length > 0 && (
        <ul
          tabIndex={0}
          aria-label="Unchanged robots"
          className="mt-3 max-h-60 divide-y divide-line overflow-y-auto rounded-md border border-line"
        >
          {others.slice(0, SHOWN_MAX).map(({ robot_id, outcome, message }) => (
            <li key={robot_id} className="flex items-baseline gap-3 px-3 py-1.5">
              <TextLine className="max-w-[45%] shrink-0 font-medium">{names.get(robot_id) ?? robot_id}</TextLine>
              <Text className="text-muted">{message ?? OUTCOMES[outcome].text}</Text>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
