import { Maximize, Minus, Plus } from "lucide-react";
import { type KeyboardEvent, memo, type PointerEvent, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { cx, IconButton } from "../../ui/index.ts";
import { type Camera, cluster, type Cluster, fit, pan, type Size, tiles, zoom } from "./camera.ts";
import { type Frame, GEOGRAPHIC, type Point, roundStep } from "./frames.ts";
import { Marker, type Placed } from "./marker.tsx";

/** Robots in one square of this size share a marker. Between two levels of the zoom, the square grows to twice the size. */
const CELL_PX = 44;
const ZOOM_STEP = 1.6;
const WHEEL_PX = 400;
const KEY_PAN_PX = 80;
const GRID_LINES = 8;
const SCALE_BAR_PX = 120;
/** Markers are rendered this far outside of the visible part, so that moving the map by less than half of it renders none again. */
const AHEAD_PX = 128;
/** A pointer that moves less than this clicks. */
const CLICK_PX = 4;

/** An image on the map, with lengths in units of the frame. */
export interface Plan {
  url: string;
  left: number;
  top: number;
  width: number;
  height: number;
}

const cornersOf = ({ left, top, width, height }: Plan): Point[] => [
  { x: left, y: top },
  { x: left + width, y: top + height },
];

interface Shown {
  frame: Frame;
  robots: readonly Placed[];
  /** URL template of map tiles. Only for the geographic frame. */
  tile_url: string | undefined;
  /** The floor plan on which the robots are drawn. */
  plan: Plan | undefined;
}

interface MapViewProps extends Shown {
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
  /** Changes when the map must show all robots again. */
  fit_key: string;
  /** A point to show in the middle. */
  focus: Point | undefined;
  attribution: string | undefined;
  /** Shown over the lower edge of the map. */
  children?: ReactNode;
}

/** A map that moves with the pointer, the wheel, two fingers, and with the arrow keys, + and −. */
export function MapView({ frame, robots, selected, onSelect, fit_key, focus, tile_url, attribution, plan, children }: MapViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const size = useSize(box);
  const [moved, setMoved] = useState<{ fit_key: string; camera: Camera }>();
  const fitted = useFitted(frame, robots, plan, size);
  // Until the user moves the map, it shows all robots.
  const camera = moved?.fit_key === fit_key ? moved.camera : fitted;
  const latest = useRef(camera);
  latest.current = camera;
  const show = (next: Camera): void => {
    latest.current = next;
    setMoved({ fit_key, camera: next });
  };
  const fit_now = useRef(fit_key);
  fit_now.current = fit_key;
  useEffect(() => {
    if (focus !== undefined) setMoved({ fit_key: fit_now.current, camera: { ...latest.current, ...focus } });
  }, [focus]);
  const pointers = usePointers({ box, latest, frame, show });
  const zoomBy = (factor: number): void => show(zoom(latest.current, frame, factor));
  const press = (event: KeyboardEvent): void => {
    const [x, y] = KEYS[event.key] ?? [];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (x !== undefined && y !== undefined) show(pan(latest.current, { x: x * KEY_PAN_PX, y: y * KEY_PAN_PX }));
    else if (event.key === "+" || event.key === "=") zoomBy(ZOOM_STEP);
    else if (event.key === "-") zoomBy(1 / ZOOM_STEP);
    else if (event.key === "Escape") onSelect(undefined);
    else return;
    event.preventDefault();
  };
  const open = ({ items }: Cluster<Placed>): void => {
    if (pointers.was_drag.current) return;
    const [first] = items;
    if (items.length === 1) return onSelect(first?.robot.id);
    const near = fit(items, frame, size);
    // Robots at the same place stay one marker at each zoom. The list shows them all.
    if (near.scale <= latest.current.scale * 1.05) onSelect(first?.robot.id);
    else show(near);
  };
  return (
    <div className="relative h-full min-h-0 overflow-hidden rounded-lg border border-line bg-sunken" data-map>
      <div
        ref={box}
        role="group"
        aria-label="Map of robots. Arrow keys move the map, plus and minus zoom. The list of robots has the same content."
        tabIndex={0}
        onKeyDown={press}
        {...pointers.handlers}
        className="absolute inset-0 cursor-grab touch-none overflow-hidden outline-offset-[-2px] active:cursor-grabbing"
      >
        <Layers {...{ frame, robots, tile_url, plan, camera, size, selected }} onOpen={open} />
      </div>
      <ZoomButtons onZoom={zoomBy} onFit={() => show(fitted)} />
      <div className="pointer-events-none absolute inset-x-2 bottom-2 flex flex-wrap items-end justify-between gap-2">
        <div className="pointer-events-auto min-w-0">{children}</div>
        <Legend frame={frame} camera={camera} attribution={attribution} />
      </div>
    </div>
  );
}

/** A map without controls that shows all robots. Its content is not accessible: describe it beside the map. */
export function StillMap({ frame, robots, tile_url, attribution, plan }: Shown & { attribution: string | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const size = useSize(box);
  const camera = useFitted(frame, robots, plan, size);
  return (
    <div ref={box} inert className="relative h-44 overflow-hidden border-b border-line bg-sunken" data-map>
      <Layers {...{ frame, robots, tile_url, plan, camera, size }} selected={undefined} onOpen={() => {}} />
      <div className="absolute right-2 bottom-2">
        <Legend frame={frame} camera={camera} attribution={attribution} />
      </div>
    </div>
  );
}

const useFitted = (frame: Frame, robots: readonly Placed[], plan: Plan | undefined, size: Size): Camera =>
  useMemo(() => fit(plan === undefined ? robots : [...robots, ...cornersOf(plan)], frame, size), [robots, plan, frame, size]);

const Layers = ({ frame, robots, tile_url, plan, camera, size, selected, onOpen }: Shown & MarkersProps) => (
  <>
    {/* Below the tiles, so that it is visible where they could not be loaded. */}
    <Grid frame={frame} camera={camera} size={size} />
    {frame === GEOGRAPHIC && tile_url !== undefined && <Tiles url={tile_url} camera={camera} size={size} />}
    {plan !== undefined && <PlanImage plan={plan} camera={camera} size={size} />}
    <Markers robots={robots} camera={camera} size={size} selected={selected} onOpen={onOpen} />
  </>
);

const Legend = ({ frame, camera, attribution }: { frame: Frame; camera: Camera; attribution: string | undefined }) => (
  <div className="flex flex-col items-end gap-1">
    <ScaleBar pixels={camera.scale / frame.metersPerUnit(camera.y)} />
    {Boolean(attribution) && frame === GEOGRAPHIC && <p className="rounded bg-raised px-1 text-xs text-muted">{attribution}</p>}
  </div>
);

const PlanImage = ({ plan, camera, size }: { plan: Plan; camera: Camera; size: Size }) => (
  <img
    src={plan.url}
    alt=""
    draggable={false}
    className="absolute max-w-none bg-white"
    style={{
      left: size.width / 2 + (plan.left - camera.x) * camera.scale,
      top: size.height / 2 + (plan.top - camera.y) * camera.scale,
      width: plan.width * camera.scale,
      height: plan.height * camera.scale,
    }}
  />
);

const ZoomButtons = ({ onZoom, onFit }: { onZoom: (factor: number) => void; onFit: () => void }) => (
  <div className="absolute top-2 right-2 flex flex-col gap-1">
    <IconButton look="secondary" label="Zoom in" icon={Plus} onClick={() => onZoom(ZOOM_STEP)} />
    <IconButton look="secondary" label="Zoom out" icon={Minus} onClick={() => onZoom(1 / ZOOM_STEP)} />
    <IconButton look="secondary" label="Show all robots" icon={Maximize} onClick={onFit} />
  </div>
);

const KEYS: Record<string, readonly [number, number]> = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const NO_SIZE = { width: 800, height: 500 };

function useSize(box: React.RefObject<HTMLDivElement | null>): Size {
  const [size, setSize] = useState<Size>(NO_SIZE);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setSize({ width: entry.contentRect.width, height: entry.contentRect.height });
    });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [box]);
  return size;
}

interface PointersOptions {
  box: React.RefObject<HTMLDivElement | null>;
  latest: React.RefObject<Camera>;
  frame: Frame;
  show: (camera: Camera) => void;
}

/** Moves the map with one pointer, zooms with two, and zooms with the wheel. */
function usePointers({ box, latest, frame, show }: PointersOptions) {
  const held = useRef(new Map<number, Point>());
  const was_drag = useRef(false);
  const current = useRef({ frame, show });
  current.current = { frame, show };
  const fromMiddle = ({ clientX, clientY }: { clientX: number; clientY: number }): Point => {
    const { left, top, width, height } = box.current!.getBoundingClientRect();
    return { x: clientX - left - width / 2, y: clientY - top - height / 2 };
  };
  useEffect(() => {
    const element = box.current!;
    // React registers passive wheel listeners, which cannot prevent the page from scrolling.
    const turn = (event: WheelEvent): void => {
      event.preventDefault();
      const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 16 : event.deltaY;
      const { left, top, width, height } = element.getBoundingClientRect();
      const at = { x: event.clientX - left - width / 2, y: event.clientY - top - height / 2 };
      current.current.show(zoom(latest.current, current.current.frame, 2 ** (-pixels / WHEEL_PX), at));
    };
    element.addEventListener("wheel", turn, { passive: false });
    return () => element.removeEventListener("wheel", turn);
  }, [box, latest]);
  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    if (held.current.size === 0) was_drag.current = false;
    held.current.set(event.pointerId, fromMiddle(event));
  };
  const move = (event: PointerEvent): void => {
    const before = held.current.get(event.pointerId);
    if (before === undefined) return;
    const now = fromMiddle(event);
    const other = [...held.current].find(([id]) => id !== event.pointerId)?.[1];
    if (!was_drag.current && Math.hypot(now.x - before.x, now.y - before.y) < CLICK_PX) return;
    was_drag.current = true;
    // Captured only now: the capture of a click would keep it from the marker below the pointer.
    box.current?.setPointerCapture(event.pointerId);
    held.current.set(event.pointerId, now);
    const panned = pan(latest.current, { x: (now.x - before.x) / held.current.size, y: (now.y - before.y) / held.current.size });
    if (other === undefined) return show(panned);
    const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
    show(zoom(panned, frame, factor, { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 }));
  };
  const up = (event: PointerEvent): void => void held.current.delete(event.pointerId);
  return { was_drag, handlers: { onPointerDown: down, onPointerMove: move, onPointerUp: up, onPointerCancel: up } };
}

function Tiles({ url, camera, size }: { url: string; camera: Camera; size: Size }) {
  return tiles(url, camera, size).map(({ key, url: src, x, y, size: units }) => (
    <img
      key={key}
      src={src}
      alt=""
      draggable={false}
      referrerPolicy="origin"
      className="absolute max-w-none"
      style={{
        left: size.width / 2 + (x - camera.x) * camera.scale,
        top: size.height / 2 + (y - camera.y) * camera.scale,
        // Slightly larger, so that rounding leaves no gap.
        width: units * camera.scale + 0.5,
        height: units * camera.scale + 0.5,
      }}
    />
  ));
}

/** Width of a label of the grid, in pixels. */
const LABEL_PX = 72;

function Grid({ frame, camera, size }: { frame: Frame; camera: Camera; size: Size }) {
  const half = { x: size.width / 2 / camera.scale, y: size.height / 2 / camera.scale };
  const from = { x: camera.x - half.x, y: camera.y - half.y };
  const lines = frame.grid(from, { x: camera.x + half.x, y: camera.y + half.y }, Math.min(GRID_LINES, size.width / LABEL_PX));
  return (
    <svg aria-hidden className="absolute inset-0 size-full text-xs">
      {lines.x.map(({ at, label }) => {
        const x = (at - from.x) * camera.scale;
        return (
          <g key={label}>
            <line x1={x} x2={x} y1={0} y2={size.height} className="stroke-line" />
            {/* Not below the buttons on the right. */}
            {x < size.width - LABEL_PX && (
              <text x={x + 4} y={14} className="fill-muted">
                {label}
              </text>
            )}
          </g>
        );
      })}
      {lines.y.map(({ at, label }) => {
        const y = (at - from.y) * camera.scale;
        return (
          <g key={label}>
            <line x1={0} x2={size.width} y1={y} y2={y} className="stroke-line" />
            {/* Not in the row of the other labels. */}
            {y > LABEL_PX / 2 && (
              <text x={4} y={y - 4} className="fill-muted">
                {label}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** A line of a round length, with the length in meters. */
function ScaleBar({ pixels }: { pixels: number }) {
  const least = SCALE_BAR_PX / 2.5 / pixels;
  const meters = roundStep(least);
  return (
    <div className="rounded bg-raised px-1.5 py-0.5 text-xs text-muted">
      {meters >= 1_000 ? `${meters / 1_000} km` : meters >= 1 ? `${meters} m` : `${Math.round(meters * 100)} cm`}
      <div className="h-1.5 border-x border-b border-line-strong" style={{ width: meters * pixels }} />
    </div>
  );
}

interface MarkersProps {
  robots: readonly Placed[];
  camera: Camera;
  size: Size;
  selected: string | undefined;
  onOpen: (cluster: Cluster<Placed>) => void;
}

/** The markers. While the map moves, only the position of their common layer changes. */
function Markers({ robots, camera, size, selected, onOpen }: MarkersProps) {
  const { scale } = camera;
  // Groups change only when the scale has doubled: with each step of the wheel, most markers would be created again.
  const level = Math.floor(Math.log2(scale));
  const clusters = useMemo(() => cluster(robots, CELL_PX / 2 ** level), [robots, level]);
  const unit = AHEAD_PX / scale;
  // The origin of the layer: the camera, in steps.
  const x = Math.round(camera.x / unit) * unit;
  const y = Math.round(camera.y / unit) * unit;
  const opened = useRef(onOpen);
  opened.current = onOpen;
  const [open] = useState(() => (one: Cluster<Placed>) => opened.current(one));
  const { width, height } = size;
  const near = useMemo(
    () =>
      clusters.filter((one) => Math.abs(one.x - x) * scale < width / 2 + AHEAD_PX && Math.abs(one.y - y) * scale < height / 2 + AHEAD_PX),
    [clusters, x, y, scale, width, height],
  );
  return (
    <div
      className={cx("absolute top-1/2 left-1/2 size-0")}
      style={{ transform: `translate(${(x - camera.x) * scale}px, ${(y - camera.y) * scale}px)` }}
    >
      <Layer clusters={near} x={x} y={y} scale={scale} selected={selected} onOpen={open} />
    </div>
  );
}

interface LayerProps extends Camera {
  clusters: readonly Cluster<Placed>[];
  selected: string | undefined;
  onOpen: (cluster: Cluster<Placed>) => void;
}

const Layer = memo(function Layer({ clusters, x, y, scale, selected, onOpen }: LayerProps) {
  return clusters.map((one) => (
    <Marker
      key={one.items.length === 1 ? one.items[0]!.robot.id : one.key}
      cluster={one}
      left={(one.x - x) * scale}
      top={(one.y - y) * scale}
      is_selected={one.items.some(({ robot }) => robot.id === selected)}
      onOpen={onOpen}
    />
  ));
});
