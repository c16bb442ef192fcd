import type { RobotPosition } from "@roamfleet/protocol/routes";
import { cx } from "../../ui/index.ts";
import type { Cluster } from "./camera.ts";
import type { Point } from "./frames.ts";

/** A robot at a point of the map. */
export interface Placed extends Point {
  robot: RobotPosition;
  /** Whether the position is too old to be taken for the current one. */
  is_old: boolean;
}

interface MarkerProps {
  cluster: Cluster<Placed>;
  left: number;
  top: number;
  is_selected: boolean;
  onOpen: (cluster: Cluster<Placed>) => void;
}

/** Whether the robot is online and reports failing checks. Health from before it went offline does not count. */
export const isUnhealthy = ({ status, health }: RobotPosition): boolean => status === "online" && health === "failing";

type State = "online" | "unhealthy" | "offline";
const stateOf = ({ robot }: Placed): State => (robot.status !== "online" ? "offline" : isUnhealthy(robot) ? "unhealthy" : "online");

const SHAPES: Record<State, { shape: string; heading: string }> = {
  online: { shape: "rounded-full border-surface bg-ok ring-1 ring-ok", heading: "fill-ok" },
  unhealthy: { shape: "rotate-45 rounded-xs border-surface bg-bad ring-1 ring-bad", heading: "fill-bad" },
  offline: { shape: "rounded-xs border-idle bg-surface", heading: "fill-idle" },
};

/**
 * The marker of one robot or of a group of robots. The shape shows the state, so that color is not needed: a circle is online, a diamond
 * unhealthy, and a hollow square not online. The Tab key skips markers, because the list beside the map contains each robot.
 */
export function Marker({ cluster, left, top, is_selected, onOpen }: MarkerProps) {
  const { items } = cluster;
  const [first] = items;
  const text = textOf(items);
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-label={text}
      title={text}
      data-marker={items.length === 1 && first !== undefined ? stateOf(first) : "group"}
      data-old={items.every((one) => one.is_old) || undefined}
      onClick={() => onOpen(cluster)}
      className="absolute grid size-8 -translate-x-1/2 -translate-y-1/2 place-items-center"
      style={{ left, top }}
    >
      {items.length === 1 && first !== undefined ? (
        <One one={first} is_selected={is_selected} />
      ) : (
        <Group items={items} is_selected={is_selected} />
      )}
    </button>
  );
}

const countOf = (items: readonly Placed[], state: State): number => items.filter((one) => stateOf(one) === state).length;

function textOf(items: readonly Placed[]): string {
  const [first] = items;
  if (items.length === 1 && first !== undefined) {
    const { name, status, failing } = first.robot;
    if (stateOf(first) !== "unhealthy") return `${name.slice(0, 200)}, ${status.replaceAll("_", " ")}`;
    return `${name.slice(0, 200)}, unhealthy: ${failing.join(", ").slice(0, 200)}`;
  }
  const unhealthy = countOf(items, "unhealthy");
  const online = countOf(items, "online") + unhealthy;
  const counts = [`${items.length.toLocaleString()} robots`, `${online.toLocaleString()} online`];
  return [...counts, ...(unhealthy === 0 ? [] : [`${unhealthy.toLocaleString()} unhealthy`])].join(", ");
}

function One({ one, is_selected }: { one: Placed; is_selected: boolean }) {
  const { position } = one.robot;
  const heading = position?.heading_degrees ?? undefined;
  const is_planar = position?.latitude_degrees === null;
  const { shape, heading: fill } = SHAPES[stateOf(one)];
  return (
    <span className={cx("relative grid place-items-center", one.is_old && "opacity-50")}>
      <span className={cx("size-3.5 border-2", shape, is_selected && "outline-2 outline-offset-2 outline-accent")} />
      {heading !== undefined && (
        <svg
          aria-hidden
          viewBox="-12 -12 24 24"
          className={cx("absolute size-8", fill)}
          // Compass headings turn clockwise from north; those of a floor plan counterclockwise from the x axis.
          style={{ transform: `rotate(${is_planar ? 90 - heading : heading}deg)` }}
        >
          <path d="M0 -11 L3 -7 L-3 -7 Z" />
        </svg>
      )}
    </span>
  );
}

function Group({ items, is_selected }: { items: readonly Placed[]; is_selected: boolean }) {
  const degreesOf = (state: State): number => (countOf(items, state) / items.length) * 360;
  const bad = degreesOf("unhealthy");
  const ok = bad + degreesOf("online");
  return (
    <span
      className={cx(
        "grid size-8 place-items-center rounded-full",
        items.every((one) => one.is_old) && "opacity-50",
        is_selected && "outline-2 outline-offset-2 outline-accent",
      )}
      // The ring shows which parts of the robots are unhealthy and online; the tooltip has the numbers.
      style={{ background: `conic-gradient(var(--bad) ${bad}deg, var(--ok) ${bad}deg ${ok}deg, var(--line-strong) ${ok}deg)` }}
    >
      <span
        className={cx(
          "grid size-6 place-items-center rounded-full bg-raised text-xs font-medium tabular-nums",
          items.every((one) => one.is_old) ? "text-muted" : "text-ink",
        )}
      >
        {items.length > 999 ? `${Math.floor(items.length / 1_000)}k` : items.length}
      </span>
    </span>
  );
}
