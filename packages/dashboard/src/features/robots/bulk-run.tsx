import type { BulkOutcome, Robot } from "@roamfleet/protocol/routes";
import { useEffect, useRef, useState } from "react";
import { Badge, Button, Progress, Text, type Tone } from "../../ui/index.ts";
import type { BulkChange } from "./bulk-change.ts";
import { runBulk } from "./bulk.ts";

const OUTCOMES: Record<BulkOutcome["outcome"], { text: string; tone: Tone }> = {
  changed: { text: "changed", tone: "ok" },
  unchanged: { text: "were so already", tone: "idle" },
  not_found: { text: "not here any more", tone: "warn" },
  forbidden: { text: "outside of what you may change", tone: "bad" },
  conflict: { text: "refused", tone: "bad" },
};
const SHOWN_MAX = 200;

export interface BulkState {
  outcomes: readonly BulkOutcome[];
  status: "idle" | "running" | "ended" | "stopped";
  error: unknown;
}

/** Runs a change of many robots; it stops with the dialog. */
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

/** How far it is, and what became of those that were not changed. */
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
        {status === "stopped" && <Badge tone="warn">stopped: the others are as they were</Badge>}
        {counted
          .filter(({ value }) => value > 0)
          .map(({ label, tone, value }) => (
            <Badge key={label} tone={tone}>{`${value.toLocaleString()} ${label}`}</Badge>
          ))}
      </p>
      {error !== undefined && (
        <p role="alert" className="mt-2 text-bad">
          <Text>{error instanceof Error ? error.message : "the server gave no answer"}</Text>
        </p>
      )}
      {others.length > 0 && (
        <ul
          tabIndex={0}
          aria-label="Robots that were not changed"
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

/** Buttons under it: begin, stop, or close when it has ended. */
export function BulkButtons({ verb, can_start, status, onStart, onStop, onClose }: BulkButtonsProps) {
  if (status === "running") return <Button onClick={onStop}>Stop after this part</Button>;
  if (status !== "idle")
    return (
      <Button look="primary" onClick={onClose}>
        Close
      </Button>
    );
  return (
    <>
      <Button onClick={onClose}>Leave it</Button>
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
