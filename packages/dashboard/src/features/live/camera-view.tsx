import { Camera, Maximize } from "lucide-react";
import { type RefObject, useEffect, useRef, useState } from "react";
import { Button, byteText } from "../../ui/index.ts";
import { type CameraSearch, cameraQuery } from "./camera-search.ts";
import { createFramePainter, type FrameFigures, type FramePainter } from "./frame-painter.ts";
import { LiveBadge, LiveNotice } from "./live-notice.tsx";
import { type Following, followStream, type LiveState } from "./live-socket.ts";
import { useIsVisible } from "./use-is-visible.ts";

const FIGURES_MS = 500;
/** Age from which a frame is marked as old. */
const STALE_MS = 5_000;

export interface CameraViewProps {
  robot_id: string;
  robot_name: string;
  is_online: boolean;
  search: CameraSearch;
}

/** Shows the latest frame of a camera. Requests no frames while the page is hidden. */
export function CameraView({ robot_id, robot_name, is_online, search }: CameraViewProps) {
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
        <Button icon={<Camera size={14} aria-hidden />} disabled={figures.frames === 0} onClick={() => save(picture(), robot_name)}>
          Save picture
        </Button>
        <Button icon={<Maximize size={14} aria-hidden />} onClick={() => void frame.current?.requestFullscreen().catch(() => {})}>
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
      {words.join(" · ")}
      {age_ms > STALE_MS && <strong className="text-warn"> · latest frame {Math.round(age_ms / 1_000)} s ago</strong>}
      {fps !== undefined && rate > 0 && rate < fps * 0.7 && <> · {fps} frames/s requested: limited by the camera or the connection</>}
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

function useCamera(options: {
  robot_id: string;
  is_online: boolean;
  search: CameraSearch;
  canvas: RefObject<HTMLCanvasElement | null>;
  is_visible: boolean;
}) {
  const { robot_id, is_online, search, canvas, is_visible } = options;
  const [live, setLive] = useState<LiveState>();
  const [figures, setFigures] = useState(NOTHING);
  const painter = useRef<FramePainter>(undefined);
  const following = useRef<Following>(undefined);
  const key = JSON.stringify(cameraQuery(search));
  useEffect(() => {
    if (canvas.current === null || !is_visible) return undefined;
    const paint = createFramePainter(canvas.current);
    painter.current = paint;
    const stream = followStream({
      name: "camera",
      id: robot_id,
      what: "this camera",
      query: () => JSON.parse(key) as ReturnType<typeof cameraQuery>,
      onState: setLive,
      onFrame: (data) => {
        if (typeof data !== "string") paint.take(data);
      },
    });
    following.current = stream;
    const timer = setInterval(() => setFigures(paint.read()), FIGURES_MS);
    return () => {
      clearInterval(timer);
      stream.close();
      paint.end();
    };
  }, [robot_id, key, canvas, is_visible]);
  useEffect(() => {
    if (is_online && live?.is === "offline") following.current?.again();
  }, [is_online, live]);
  return { live, figures, again: () => following.current?.again(), picture: () => painter.current?.picture() };
}
