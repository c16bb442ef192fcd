import type { Robot } from "@roamfleet/protocol/routes";

/** The state that the map shows for a robot: the worst of its current states. */
export type Heat = "failing" | "failed" | "offline" | "never_connected" | "behind" | "unknown" | "ok";

/** The states of a robot, worst first. Cells show `sign` so that color is not the only indicator. */
export const HEATS: readonly { heat: Heat; words: string; sign: string; style: string }[] = [
  { heat: "failing", words: "unhealthy", sign: "!", style: "bg-bad text-surface" },
  { heat: "failed", words: "last update failed", sign: "×", style: "bg-bad-soft text-bad border border-bad" },
  { heat: "offline", words: "offline", sign: "–", style: "bg-idle-soft text-idle border border-line-strong" },
  { heat: "never_connected", words: "never connected", sign: "?", style: "bg-surface text-muted border border-dashed border-line-strong" },
  { heat: "behind", words: "release behind", sign: "↑", style: "bg-info-soft text-info border border-info" },
  { heat: "unknown", words: "online, no health data", sign: "·", style: "bg-surface text-muted border border-line-strong" },
  { heat: "ok", words: "healthy", sign: "", style: "bg-ok-soft text-ok border border-ok" },
];

type Seen = Pick<Robot, "status" | "health" | "release_state">;

/** Returns the worst current state. Offline robots are shown as offline, because their last health may be outdated. */
export function heatOf({ status, health, release_state }: Seen): Heat {
  if (status === "never_connected") return "never_connected";
  if (status === "offline" || status === "decommissioned") return "offline";
  if (health === "failing") return "failing";
  if (release_state === "failed") return "failed";
  if (release_state === "behind") return "behind";
  return health === "ok" ? "ok" : "unknown";
}

/** Counts robots by state, worst first; leaves out states without robots. */
export function countHeats(robots: readonly Seen[]): { heat: Heat; count: number }[] {
  const counts = new Map<Heat, number>();
  for (const robot of robots) counts.set(heatOf(robot), (counts.get(heatOf(robot)) ?? 0) + 1);
  return HEATS.flatMap(({ heat }) => (counts.has(heat) ? [{ heat, count: counts.get(heat)! }] : []));
}

export const wordsOf = (heat: Heat): string => HEATS.find((one) => one.heat === heat)!.words;

/** Formats the number of robots in each state: "1,000 robots: 3 unhealthy, 40 offline, 957 healthy." */
export function summarize(robots: readonly Seen[]): string {
  const parts = countHeats(robots).map(({ heat, count }) => `${count.toLocaleString("en")} ${wordsOf(heat)}`);
  return `${robots.length.toLocaleString("en")} ${robots.length === 1 ? "robot" : "robots"}${parts.length === 0 ? "" : `: ${parts.join(", ")}`}.`;
}

/**
 * Returns the index of the cell that a key moves the focus to, in a grid of `count` cells and `columns`; undefined for other keys. The
 * index is always within the grid.
 */
export function moveFocus(key: string, at: number, count: number, columns: number): number | undefined {
  const last = count - 1;
  switch (key) {
    case "ArrowRight":
      return Math.min(last, at + 1);
    case "ArrowLeft":
      return Math.max(0, at - 1);
    case "ArrowDown":
      return at + columns > last ? at : at + columns;
    case "ArrowUp":
      return at - columns < 0 ? at : at - columns;
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return undefined;
  }
}
