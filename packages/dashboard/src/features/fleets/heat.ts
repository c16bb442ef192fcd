import type { Robot } from "@roamfleet/protocol/routes";

/** What a robot is shown as in the map: the worst that is said of it. */
export type Heat = "failing" | "failed" | "offline" | "never_connected" | "behind" | "unknown" | "ok";

/** Worst first, as the summary lists them. `sign` stands in the cell, so that no colour alone says it. */
export const HEATS: readonly { heat: Heat; words: string; sign: string; style: string }[] = [
  { heat: "failing", words: "unhealthy", sign: "!", style: "bg-bad text-surface" },
  { heat: "failed", words: "failed to install", sign: "×", style: "bg-bad-soft text-bad border border-bad" },
  { heat: "offline", words: "offline", sign: "–", style: "bg-idle-soft text-idle border border-line-strong" },
  { heat: "never_connected", words: "never connected", sign: "?", style: "bg-surface text-muted border border-dashed border-line-strong" },
  { heat: "behind", words: "behind", sign: "↑", style: "bg-info-soft text-info border border-info" },
  { heat: "unknown", words: "online, not heard how it is", sign: "·", style: "bg-surface text-muted border border-line-strong" },
  { heat: "ok", words: "well", sign: "", style: "bg-ok-soft text-ok border border-ok" },
];

type Seen = Pick<Robot, "status" | "health" | "release_state">;

/** Who is away says nothing of today, so that comes before what was said last, but for what waits for somebody: a failure. */
export function heatOf({ status, health, release_state }: Seen): Heat {
  if (status === "never_connected") return "never_connected";
  if (status === "offline" || status === "decommissioned") return "offline";
  if (health === "failing") return "failing";
  if (release_state === "failed") return "failed";
  if (release_state === "behind") return "behind";
  return health === "ok" ? "ok" : "unknown";
}

/** How many robots there are of each heat that there is, worst first. */
export function countHeats(robots: readonly Seen[]): { heat: Heat; count: number }[] {
  const counts = new Map<Heat, number>();
  for (const robot of robots) counts.set(heatOf(robot), (counts.get(heatOf(robot)) ?? 0) + 1);
  return HEATS.flatMap(({ heat }) => (counts.has(heat) ? [{ heat, count: counts.get(heat)! }] : []));
}

export const wordsOf = (heat: Heat): string => HEATS.find((one) => one.heat === heat)!.words;

/** "1,000 robots: 3 unhealthy, 40 offline, 957 well." */
export function summarize(robots: readonly Seen[]): string {
  const parts = countHeats(robots).map(({ heat, count }) => `${count.toLocaleString("en")} ${wordsOf(heat)}`);
  return `${robots.length.toLocaleString("en")} ${robots.length === 1 ? "robot" : "robots"}${parts.length === 0 ? "" : `: ${parts.join(", ")}`}.`;
}

/**
 * Where the focus goes by a key in a grid of `columns`, of `count` cells; undefined for a key that moves nothing. It never
 * leaves the grid.
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
