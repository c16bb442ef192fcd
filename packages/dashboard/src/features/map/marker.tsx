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

/**
 * One robot or a group. Online robots are filled circles, others hollow squares. Markers are not in the order of the Tab key, because the
 * list beside the map contains each robot.
 */
export function Marker({ cluster, left, top, is_selected, onOpen }: MarkerProps) {
  const { items } = cluster;
  const online = items.filter(({ robot }) => robot.status === "online").length;
  const is_old = items.every((one) => one.is_old);
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-label={textOf(cluster, online)}
      title={textOf(cluster, online)}
      data-marker={items.length === 1 ? items[0]!.robot.status : "group"}
      data-old={is_old || undefined}
      onClick={() => onOpen(cluster)}
      className="absolute grid size-8 -translate-x-1/2 -translate-y-1/2 place-items-center"
      style={{ left, top }}
    >
      {items.length === 1 ? (
        <One one={items[0]!} is_online={online === 1} is_selected={is_selected} />
      ) : (
        <Group count={items.length} online={online} is_old={is_old} is_selected={is_selected} />
      )}
    </button>
  );
}

function textOf({ items }: Cluster<Placed>, online: number): string {
  const [first] = items;
  if (items.length === 1 && first !== undefined) return `${first.robot.name.slice(0, 200)}, ${first.robot.status.replaceAll("_", " ")}`;
  return `${items.length.toLocaleString()} robots, ${online.toLocaleString()} online`;
}

function One({ one: { robot, is_old }, is_online, is_selected }: { one: Placed; is_online: boolean; is_selected: boolean }) {
  const heading = robot.position?.heading_degrees ?? undefined;
  const is_planar = robot.position?.latitude_degrees === null;
  return (
    <span className={cx("relative grid place-items-center", is_old && "opacity-50")}>
      <span
        className={cx(
          "size-3.5 border-2",
          is_online ? "rounded-full border-surface bg-ok ring-1 ring-ok" : "rounded-xs border-idle bg-surface",
          is_selected && "outline-2 outline-offset-2 outline-accent",
        )}
      />
      {heading !== undefined && (
        <svg
          aria-hidden
          viewBox="-12 -12 24 24"
          className={cx("absolute size-8", is_online ? "fill-ok" : "fill-idle")}
          // Compass headings turn clockwise from north; those of a floor plan counterclockwise from the x axis.
          style={{ transform: `rotate(${is_planar ? 90 - heading : heading}deg)` }}
        >
          <path d="M0 -11 L3 -7 L-3 -7 Z" />
        </svg>
      )}
    </span>
  );
}

function Group({ count, online, is_old, is_selected }: { count: number; online: number; is_old: boolean; is_selected: boolean }) {
  const degrees = Math.round((online / count) * 360);
  return (
    <span
      className={cx("grid size-8 place-items-center rounded-full", is_selected && "outline-2 outline-offset-2 outline-accent")}
      // The ring shows which part of the robots is online; the tooltip has the numbers.
      style={{ background: `conic-gradient(var(--ok) ${degrees}deg, var(--line-strong) ${degrees}deg)` }}
    >
      <span
        className={cx(
          "grid size-6 place-items-center rounded-full bg-raised text-xs font-medium tabular-nums",
          is_old ? "text-muted" : "text-ink",
        )}
      >
        {count > 999 ? `${Math.floor(count / 1_000)}k` : count}
      </span>
    </span>
  );
}
