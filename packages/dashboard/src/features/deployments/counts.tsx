import type { TargetStatus } from "@roamfleet/protocol";
import type { Deployment } from "@roamfleet/protocol/routes";
import { cx, type Tone } from "../../ui/index.ts";
import { CountsBar } from "./parts.tsx";
import type { DeploymentSearch } from "./search.ts";

const INKS: Record<Tone, string> = { ok: "text-ok", warn: "text-warn", bad: "text-bad", info: "text-info", idle: "text-ink" };

/** `status`: the status by which a click filters the table. Updating robots have several, so that figure has none. */
const FIGURES: readonly { name: keyof Deployment["counts"]; label: string; tone: Tone; status?: TargetStatus }[] = [
  { name: "applied", label: "applied", tone: "ok", status: "applied" },
  { name: "active", label: "updating", tone: "info" },
  { name: "queued", label: "queued", tone: "idle", status: "queued" },
  { name: "pending", label: "in later waves", tone: "idle", status: "pending" },
  { name: "failed", label: "failed", tone: "bad", status: "failed" },
  { name: "rolled_back", label: "rolled back", tone: "warn", status: "rolled_back" },
  { name: "cancelled", label: "cancelled", tone: "idle", status: "cancelled" },
];

/** The progress of a deployment. A click on a figure filters the table by its status. */
export function Counts({
  counts,
  label,
  search,
  onChange,
}: {
  counts: Deployment["counts"];
  label: string;
  search: DeploymentSearch;
  onChange: (next: DeploymentSearch) => void;
}) {
  const done = counts.applied + counts.failed + counts.rolled_back + counts.cancelled;
  const percent = counts.total === 0 ? 0 : Math.floor((100 * done) / counts.total);
  return (
    <div className="mb-6 rounded-lg border border-line bg-raised p-4">
      <div className="mb-2 flex items-baseline justify-between gap-4">
        <p>
          <span className="text-2xl font-semibold tabular-nums">{done.toLocaleString()}</span>
          <span className="text-muted tabular-nums"> of {counts.total.toLocaleString()} finished</span>
        </p>
        <p className="text-muted tabular-nums">{percent}%</p>
      </div>
      <CountsBar counts={counts} label={label} />
      <ul className="-mx-2 mt-3 flex flex-wrap gap-x-2 gap-y-1">
        {FIGURES.filter(({ name }) => counts[name] > 0 || name === "applied").map(({ name, label: text, tone, status }) => (
          <li key={name}>
            <Figure
              text={text}
              ink={INKS[tone]}
              value={counts[name]}
              is_on={status !== undefined && search.status === status}
              {...(status === undefined
                ? {}
                : {
                    onToggle: () => {
                      const { status: was, ...rest } = search;
                      onChange(was === status ? rest : { ...rest, status });
                    },
                  })}
            />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Figure({
  text,
  ink,
  value,
  is_on,
  onToggle,
}: {
  text: string;
  ink: string;
  value: number;
  is_on: boolean;
  onToggle?: () => void;
}) {
  const inside = (
    <>
      <span className={cx("font-semibold tabular-nums", ink)}>{value.toLocaleString()}</span> {text}
    </>
  );
  if (onToggle === undefined) return <span className="inline-flex h-7 items-center gap-1 px-2">{inside}</span>;
  return (
    <button
      type="button"
      aria-pressed={is_on}
      onClick={onToggle}
      className={cx("inline-flex h-7 items-center gap-1 rounded-md px-2 hover:bg-hover", is_on && "bg-accent-soft")}
    >
      {inside}
    </button>
  );
}
