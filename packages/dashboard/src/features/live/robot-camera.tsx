import { useSearch } from "@tanstack/react-router";
import { Camera, Maximize } from "lucide-react";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { useMay } from "../../api/session.ts";
import type { CameraSearch } from "../../search.ts";
import { BarSelect, Button, byteText, Command, EmptyState, FilterSelect, shellLine, Skeleton, useFilters } from "../../ui/index.ts";
import { useRobot } from "../robots/use-robot.ts";
import type { Explained } from "./ending.ts";
import { LiveBadge, LiveNotice, NothingLive, openLiveSocket, OperatorsOnly, useIsVisible, useStream } from "./live-stream.tsx";

const RATES = [1, 3, 5, 10, 15, 30];
const WIDTHS = [320, 640, 960, 1280, 1920];
const QUALITIES = [30, 50, 70, 85, 95];

/** The camera tab of a robot. */
export function RobotCamera() {
  const robot = useRobot();
  if (!useMay("operator")) return <OperatorsOnly what="view a robot's cameras" />;
  return robot && <Cameras id={robot.id} name={robot.name} is_online={robot.status === "online"} />;
}

function Cameras({ id, name, is_online }: { id: string; name: string; is_online: boolean }) {
  const { search, change } = useFilters(useSearch({ from: "/app/robots/$id/camera" }));
  const { cameras, why, again } = useCameras(id, is_online);
  if (why !== undefined) return <NothingLive why={why} onAgain={again} />;
  if (cameras === undefined) return <Skeleton rows={8} />;
  if (cameras.length === 0)
    return (
      <EmptyState title="No cameras" command={"cameras:\n  - { name: front, ffmpeg: [-f, v4l2, -i, /dev/video0] }"}>
        Add cameras to the robot's config file, /etc/roamfleet/agent.yaml, and restart the agent.
      </EmptyState>
    );
  const camera = search.camera ?? cameras[0]?.name;
  return (
    <div className="space-y-3">
      <Controls cameras={cameras} search={{ ...search, ...(camera === undefined ? {} : { camera }) }} onSearch={change} />
      <CameraView
        robot_id={id}
        robot_name={name}
        is_online={is_online}
        search={{ ...search, ...(camera === undefined ? {} : { camera }) }}
      />
      <Command>{commandOf(id, search)}</Command>
    </div>
  );
}

interface ControlsProps {
  cameras: readonly CameraInfo[];
  search: CameraSearch;
  onSearch: (part: CameraSearch) => void;
}

function Controls({ cameras, search: { camera, fps, width, quality }, onSearch }: ControlsProps) {
  const numbers = (values: readonly number[], unit: string) =>
    values.map((value) => ({ value: String(value), label: `up to ${value} ${unit}` }));
  const options = cameras.map(({ name, kind }) => ({ value: name, label: `${name} (${kind.replaceAll("_", " ")})` }));
  if (camera !== undefined && !cameras.some(({ name }) => name === camera))
    options.push({ value: camera, label: `${camera} (not available)` });
  const of = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
  const number = (value: string | undefined): number | undefined => (value === undefined ? undefined : Number(value));
  return (
    <div className="flex flex-wrap items-center gap-2" role="group" aria-label="Camera settings">
      <BarSelect label="Camera" value={camera} options={options} onValue={(name) => onSearch({ camera: name })} />
      <FilterSelect
        label="Frame rate"
        none="automatic"
        value={of(fps)}
        options={numbers(RATES, "fps")}
        onChange={(value) => onSearch({ fps: number(value) })}
      />
      <FilterSelect
        label="Width"
        none="automatic"
        value={of(width)}
        options={numbers(WIDTHS, "pixels")}
        onChange={(value) => onSearch({ width: number(value) })}
      />
      <FilterSelect
        label="Quality"
        none="automatic"
        value={of(quality)}
        options={numbers(QUALITIES, "of 100")}
        onChange={(value) => onSearch({ quality: number(value) })}
      />
    </div>
  );
}

const commandOf = (id: string, { camera, fps, width, quality }: CameraSearch): string =>
  shellLine("rf", "robots", "camera", id, { camera, fps, width, quality });

const FIGURES_MS = 500;
/** Age from which a frame is marked as old. */
const STALE_MS = 5_000;

interface CameraViewProps {
  robot_id: string;
  robot_name: string;
  is_online: boolean;
  search: CameraSearch;
}

/** Shows the latest frame of a camera. Requests no frames while the page is hidden. */
function CameraView({ robot_id, robot_name, is_online, search }: CameraViewProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const is_visible = useIsVisible();
  const { live, figures, again, picture } = useCamera({ robot_id, is_online, search, canvas, is_visible });
  return (
    <div>
      <LiveNotice live={live} onAgain={again} />
      <div ref={frame} className="relative overflow-hidden rounded-lg border border-line bg-black">
        <canvas
          ref={canvas}
          width={640}
          height={360}
          role="img"
          aria-label={`Camera ${search.camera ?? ""} of ${robot_name}`}
          className="mx-auto block max-h-[70dvh] max-w-full [:fullscreen>&]:h-full [:fullscreen>&]:max-h-full [:fullscreen>&]:w-full [:fullscreen>&]:object-contain"
        />
        <div className="absolute top-2 left-2">
          <LiveBadge live={live} paused={!is_visible} />
        </div>
        {figures.frames === 0 && live?.is === "open" && (
          <p className="appear-late absolute inset-0 flex items-center justify-center text-white">Waiting for the first frame…</p>
        )}
      </div>
      <div className="mt-2 flex flex-wrap items-center gap-2">
        <Figures figures={figures} search={search} />
        <span className="flex-1" />
        <Button icon={Camera} disabled={figures.frames === 0} onClick={() => save(picture(), robot_name)}>
          Save picture
        </Button>
        <Button icon={Maximize} onClick={() => void frame.current?.requestFullscreen().catch(() => {})}>
          Full screen
        </Button>
      </div>
    </div>
  );
}

function Figures({ figures, search: { fps } }: { figures: FrameFigures; search: CameraSearch }) {
  const { rate, width, height, bytes, frames, left_out, broken, newest_at } = figures;
  if (frames === 0) return <span className="text-muted">No frames yet</span>;
  const age_ms = performance.now() - (newest_at ?? 0);
  const words = [
    `${rate.toFixed(1)} frames/s`,
    `${width} × ${height}`,
    `${byteText(bytes)} per frame`,
    `${frames.toLocaleString("en")} frames`,
    `${left_out.toLocaleString("en")} dropped`,
    ...(broken === 0 ? [] : [`${broken} invalid`]),
  ];
  return (
    <span className="text-xs text-muted tabular-nums" data-camera-figures>
      {words.map((word) => word.replaceAll(" ", "\u00a0")).join(" · ")}
      {age_ms > STALE_MS && <strong className="text-warn"> · latest frame {Math.round(age_ms / 1_000)} s ago</strong>}
      {fps !== undefined && rate > 0 && rate < fps * 0.7 && (
        <> · fewer than the requested {fps} frames/s: the camera or the connection is slower</>
      )}
    </span>
  );
}

/** Downloads the latest frame, byte for byte as the robot sent it. */
function save(picture: Blob | undefined, robot_name: string): void {
  if (picture === undefined) return;
  const url = URL.createObjectURL(picture);
  const link = document.createElement("a");
  link.href = url;
  link.download = `${robot_name.replace(/[^\w.-]+/g, "_").slice(0, 80)}-${new Date().toISOString().replace(/[:.]/g, "-")}.jpg`;
  link.click();
  URL.revokeObjectURL(url);
}

const NOTHING: FrameFigures = { rate: 0, width: 0, height: 0, bytes: 0, frames: 0, left_out: 0, broken: 0, newest_at: undefined };

function useCamera({ robot_id, is_online, search, canvas, is_visible }: CameraOptions) {
  const [figures, setFigures] = useState(NOTHING);
  const painter = useRef<FramePainter>(undefined);
  const { live, again } = useStream({
    name: "camera",
    id: robot_id,
    what: "this camera",
    query: { ...search },
    is_online,
    is_wanted: is_visible,
    start: () => {
      const paint = createFramePainter(canvas.current!);
      painter.current = paint;
      const timer = setInterval(() => setFigures(paint.read()), FIGURES_MS);
      return {
        onFrame: (data) => {
          if (typeof data !== "string") paint.take(data);
        },
        stop: () => {
          clearInterval(timer);
          paint.end();
        },
      };
    },
  });
  return { live, figures, again, picture: () => painter.current?.picture() };
}

interface CameraOptions {
  robot_id: string;
  is_online: boolean;
  search: CameraSearch;
  canvas: RefObject<HTMLCanvasElement | null>;
  is_visible: boolean;
}

interface CameraInfo {
  name: string;
  kind: string;
}

/** Loads the list of a robot's cameras, and reloads it after the robot reconnects. `why` explains why the list could not be loaded. */
function useCameras(
  robot_id: string,
  is_online: boolean,
): { cameras: readonly CameraInfo[] | undefined; why: Explained | undefined; again: () => void } {
  const [cameras, setCameras] = useState<readonly CameraInfo[]>();
  const [why, setWhy] = useState<Explained>();
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let is_over = false;
    const socket = openLiveSocket({
      name: "camera",
      id: robot_id,
      query: { list: "true" },
      what: "this robot's cameras",
      onFrame: (data) => {
        if (is_over || typeof data !== "string") return;
        setCameras((JSON.parse(data) as { cameras: CameraInfo[] }).cameras);
        setWhy(undefined);
      },
      onEnd: (ending) => {
        if (!is_over && ending !== undefined) setWhy(ending);
      },
    });
    return () => {
      is_over = true;
      socket.close();
    };
  }, [robot_id, is_online, asked]);
  const again = useCallback(() => {
    setWhy(undefined);
    setAsked((count) => count + 1);
  }, []);
  // Return no reason if the cameras are known: the camera view then shows that the robot is offline.
  return { cameras, why: cameras === undefined ? why : undefined, again };
}

/** Time window of the rates. */
const WINDOW_MS = 3_000;
const TIMES_MAX = 200;

interface FrameFigures {
  /** Received frames per second. */
  rate: number;
  /** Size of the latest frame. */
  width: number;
  height: number;
  bytes: number;
  /** Frames received since the stream opened. */
  frames: number;
  /** Frames that this page dropped since then, because a newer one arrived before they were decoded. */
  left_out: number;
  /** Frames that are not valid images. */
  broken: number;
  /** Arrival of the latest frame, by performance.now(). */
  newest_at: number | undefined;
}

/** Draws the latest frame only: a frame that arrives during decoding replaces the waiting one. */
function createFramePainter(canvas: HTMLCanvasElement) {
  const context = canvas.getContext("2d");
  let figures: FrameFigures = { rate: 0, width: 0, height: 0, bytes: 0, frames: 0, left_out: 0, broken: 0, newest_at: undefined };
  let times: number[] = [];
  let waiting: ArrayBuffer | undefined;
  let newest: Blob | undefined;
  let [is_decoding, is_over] = [false, false];

  const draw = async (jpeg: ArrayBuffer): Promise<void> => {
    const blob = new Blob([jpeg], { type: "image/jpeg" });
    // createImageBitmap decodes in another thread, so it does not block the page.
    const bitmap = await createImageBitmap(blob);
    try {
      if (is_over || context === null) return;
      if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
      }
      context.drawImage(bitmap, 0, 0);
      newest = blob;
      figures = { ...figures, width: bitmap.width, height: bitmap.height, bytes: jpeg.byteLength };
    } finally {
      bitmap.close();
    }
  };
  const drawWaiting = async (): Promise<void> => {
    is_decoding = true;
    while (waiting !== undefined && !is_over) {
      const jpeg = waiting;
      waiting = undefined;
      await draw(jpeg).catch(() => (figures = { ...figures, broken: figures.broken + 1 }));
    }
    is_decoding = false;
  };

  return {
    take(jpeg: ArrayBuffer): void {
      const now = performance.now();
      times = [...times.slice(-TIMES_MAX), now];
      figures = { ...figures, frames: figures.frames + 1, left_out: figures.left_out + (waiting === undefined ? 0 : 1), newest_at: now };
      waiting = jpeg;
      if (!is_decoding) void drawWaiting();
    },
    /** Returns the current figures. */
    read(): FrameFigures {
      const now = performance.now();
      times = times.filter((at) => now - at < WINDOW_MS);
      const span = Math.min(WINDOW_MS, now - (times[0] ?? now));
      return { ...figures, rate: span < 200 ? 0 : (times.length * 1_000) / span };
    },
    /** Returns the latest frame as received. */
    picture: (): Blob | undefined => newest,
    end(): void {
      is_over = true;
      waiting = undefined;
    },
  };
}

type FramePainter = ReturnType<typeof createFramePainter>;
