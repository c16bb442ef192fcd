import type { BulkOutcome, Robot } from "@roamfleet/protocol/routes";
import { useEffect, useRef, useState } from "react";
import { Badge, Button, Progress, Text, type Tone } from "../../ui/index.ts";
import type { BulkChange } from "./bulk-change.ts";
import { runBulk } from "./bulk.ts";

const OUTCOMES: Record<BulkOutcome["outcome"], { text: string; tone: Tone }> = {
  changed: { text: "changed", tone: "ok" },
  unchanged: { text: "unchanged", tone: "idle" },
  not_found: { text: "no longer exist", tone: "warn" },
  forbidden: { text: "no permission", tone: "bad" },
  conflict: { text: "refused", tone: "bad" },
};
const SHOWN_MAX = 200;

export interface BulkState {
  outcomes: readonly BulkOutcome[];
  status: "idle" | "running" | "ended" | "stopped";
  error: unknown;
}

/** Changes many robots. Closing the dialog stops further requests. */
export function useBulk(robots: readonly Robot[]): BulkState & { start: (change: BulkChange) => void; stop: () => void } {
  const [state, setState] = useState<BulkState>({ outcomes: [], status: "idle", error: undefined });
  const ending = useRef<AbortController>(undefined);
  useEffect(() => () => ending.current?.abort(), []);
  const start = (change: BulkChange): void => {
    const { signal } = (ending.current = new AbortController());
    setState({ outcomes: [], status: "running", error: undefined });
    void runBulk(
      robots.map(({ id }) => id),
      change,
      (part) => setState((now) => ({ ...now, outcomes: [...now.outcomes, ...part] })),
      signal,
    ).then(
      () => setState((now) => ({ ...now, status: signal.aborted ? "stopped" : "ended" })),
      (error: unknown) => setState((now) => ({ ...now, status: "stopped", error })),
    );
  };
  return { ...state, start, stop: () => ending.current?.abort() };
}

/** The progress of a bulk change and the robots that were not changed. */
export function BulkReport({ robots, state }: { robots: readonly Robot[]; state: BulkState }) {
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
        {`${outcomes.length.toLocaleString()} of ${robots.length.toLocaleString()}`}
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
              <Text line className="max-w-[45%] shrink-0 font-medium">
                {names.get(robot_id) ?? robot_id}
              </Text>
              <Text className="text-muted">{message ?? OUTCOMES[outcome].text}</Text>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The buttons to start, stop, or close after the end. */
export function BulkButtons({ verb, can_start, status, onStart, onStop, onClose }: BulkButtonsProps) {
  if (status === "running") return <Button onClick={onStop}>Stop</Button>;
  if (status !== "idle")
    return (
      <Button look="primary" onClick={onClose}>
        Close
      </Button>
    );
  return (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button look="primary" busy={false} disabled={!can_start} onClick={onStart}>
        {verb}
      </Button>
    </>
  );
}

export interface BulkButtonsProps {
  verb: string;
  can_start: boolean;
  status: BulkState["status"];
  onStart: () => void;
  onStop: () => void;
  onClose: () => void;
}
