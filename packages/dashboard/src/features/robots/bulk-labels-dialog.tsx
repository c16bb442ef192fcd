import type { Robot } from "@roamfleet/protocol/routes";
import { Plus, X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { Button, Command, Dialog, Text, TextInput } from "../../ui/index.ts";
import { bulkCommand } from "./bulk-change.ts";
import { BulkButtons, BulkReport, useBulk } from "./bulk-run.tsx";
import { labelProblem, readLabel } from "./labels.ts";

/** Sets and removes labels of many robots. Other labels do not change. */
export function BulkLabelsDialog({ robots, onClose }: { robots: readonly Robot[]; onClose: () => void }) {
  const [set, setSet] = useState<Record<string, string>>({});
  const [remove, setRemove] = useState<readonly string[]>([]);
  const bulk = useBulk(robots);
  const change = {
    labels: { ...(Object.keys(set).length > 0 ? { set } : {}), ...(remove.length > 0 ? { remove: [...remove] } : {}) },
  };
  const is_empty = Object.keys(change.labels).length === 0;
  const keys = [...new Set(robots.flatMap(({ labels }) => Object.keys(labels)))].toSorted();
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Change labels of ${robots.length.toLocaleString()} robots`}
      description="Other labels of the robots do not change."
      actions={
        <BulkButtons
          verb="Change labels"
          can_start={!is_empty}
          status={bulk.status}
          onStart={() => bulk.start(change)}
          onStop={bulk.stop}
          onClose={onClose}
        />
      }
    >
      {bulk.status === "idle" ? (
        <>
          <SetLabels set={set} onChange={setSet} />
          <RemoveLabels keys={keys} chosen={remove} onChange={setRemove} />
          {!is_empty && (
            <div className="mt-3">
              <Command>
                {bulkCommand(
                  robots.map(({ id }) => id),
                  change,
                )}
              </Command>
            </div>
          )}
        </>
      ) : (
        <BulkReport robots={robots} state={bulk} />
      )}
    </Dialog>
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
            label="Set"
            placeholder="key=value"
            value={typed}
            error={problem}
            hint="Press Enter to add. Replaces the value on robots that have the key."
            onChange={(event) => setTyped(event.target.value)}
          />
        </div>
        <Button type="submit" className="mt-6" icon={<Plus size={14} aria-hidden />}>
          Add
        </Button>
      </div>
      <ul className="mb-3 flex flex-wrap gap-1.5">
        {Object.entries(set).map(([key, value]) => (
          <li key={key} className="inline-flex h-7 max-w-full items-center rounded-md bg-ok-soft pl-2 text-ok">
            <Text line>{`${key}=${value}`}</Text>
            <button
              type="button"
              aria-label={`Do not set ${key}`}
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
      <legend className="mb-1 font-medium">Remove</legend>
      <div className="flex max-h-40 flex-wrap gap-1.5 overflow-y-auto">
        {keys.map((key) => (
          <button
            key={key}
            type="button"
            aria-pressed={chosen.includes(key)}
            onClick={() => onChange(chosen.includes(key) ? chosen.filter((each) => each !== key) : [...chosen, key])}
            className="h-7 max-w-full rounded-md border border-line px-2 hover:bg-hover aria-pressed:border-bad aria-pressed:bg-bad-soft aria-pressed:text-bad aria-pressed:line-through"
          >
            <Text line>{key}</Text>
          </button>
        ))}
      </div>
    </fieldset>
  );
}
