import type { DeploymentWave } from "@roamfleet/protocol/routes";
import { cx, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { Countdown } from "./countdown.tsx";
import { CountsBar, countsText } from "./parts.tsx";
import { reachOf, wholeWaveText } from "./rollout-text.ts";

/** The waves in order, each with its robots, progress and state. A click filters the table by the wave. */
export function WaveList({
  waves,
  is_paused,
  chosen,
  onChoose,
}: {
  waves: readonly DeploymentWave[];
  /** No further wave opens until the deployment is resumed. */
  is_paused: boolean;
  /** Counted from 1. */
  chosen: number | undefined;
  onChoose: (wave: number | undefined) => void;
}) {
  const reach = reachOf(waves);
  return (
    <Section title="Waves">
      <ol className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-raised">
        {waves.map((wave, index) => (
          <li key={wave.wave}>
            <WaveRow
              wave={wave}
              is_paused={is_paused && PAUSABLE.has(wave.status)}
              reach={reach[index]?.percent ?? 0}
              is_chosen={chosen === wave.wave + 1}
              onToggle={() => onChoose(chosen === wave.wave + 1 ? undefined : wave.wave + 1)}
            />
          </li>
        ))}
      </ol>
    </Section>
  );
}

/** Statuses in which a pause stops a wave. */
const PAUSABLE: ReadonlySet<string> = new Set(["open", "soaking", "gate"]);

interface RowParts {
  wave: DeploymentWave;
  is_paused: boolean;
  reach: number;
  is_chosen: boolean;
  onToggle: () => void;
}

function WaveRow({ wave, is_paused, reach, is_chosen, onToggle }: RowParts) {
  const number = wave.wave + 1;
  return (
    <button
      type="button"
      aria-pressed={is_chosen}
      onClick={onToggle}
      className={cx(
        "grid w-full grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 gap-y-1 px-4 py-2.5 text-left -outline-offset-2 hover:bg-hover sm:grid-cols-[minmax(0,1.2fr)_9rem_minmax(0,1.4fr)_9rem]",
        is_chosen && "bg-accent-soft",
      )}
    >
      <span className="min-w-0">
        <span className="block font-medium">Wave {number}</span>
        <Text line className="text-xs text-muted">
          {wholeWaveText(wave)}
        </Text>
      </span>
      <span className="justify-self-end sm:justify-self-start">
        <StatusBadge status={is_paused ? "paused" : wave.status} />
      </span>
      <span className="min-w-0 max-sm:col-span-2">
        <span className="mb-0.5 block truncate text-xs text-muted tabular-nums">
          {countsText(wave)}, {reach}% cumulative
        </span>
        <CountsBar counts={wave} label={`Wave ${number}`} />
      </span>
      <span className="text-xs text-muted max-sm:col-span-2 sm:text-right">
        <WaveNote wave={wave} is_paused={is_paused} />
      </span>
    </button>
  );
}

function WaveNote({ wave, is_paused }: Pick<RowParts, "wave" | "is_paused">) {
  if (wave.status === "soaking" && wave.soaks_until !== null)
    return (
      <>
        {is_paused ? "soak time left: " : "soaks for "}
        <Countdown until={wave.soaks_until} over={is_paused ? "none" : "a moment"} />
      </>
    );
  if (wave.status === "gate") return is_paused ? "resume, then promote" : "promote to continue";
  if (wave.passed_at !== null)
    return (
      <>
        passed <Time at={wave.passed_at} />
      </>
    );
  if (wave.opened_at !== null)
    return (
      <>
        opened <Time at={wave.opened_at} />
      </>
    );
  return "not started";
}
