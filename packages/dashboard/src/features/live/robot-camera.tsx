import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMay } from "../../api/session.ts";
import { query } from "../../api/queries.ts";
import { Command, EmptyState, FilterSelect, QueryState, Skeleton, shellWord } from "../../ui/index.ts";
import type { CameraSearch } from "./camera-search.ts";
import { CameraView } from "./camera-view.tsx";
import { NothingLive } from "./live-notice.tsx";
import { OperatorsOnly } from "./operators-only.tsx";
import { type Camera, useCameras } from "./use-cameras.ts";

const RATES = [1, 3, 5, 10, 15, 30];
const WIDTHS = [320, 640, 960, 1280, 1920];
const QUALITIES = [30, 50, 70, 85, 95];

/** The camera tab of a robot. */
export function RobotCamera() {
  const { id } = useParams({ from: "/app/robots/$id/camera" });
  const robot = useQuery(query("getRobot", { params: { id } }));
  if (!useMay("operator")) return <OperatorsOnly what="view a robot's cameras" />;
  return <QueryState query={robot}>{({ data }) => <Cameras id={id} name={data.name} is_online={data.status === "online"} />}</QueryState>;
}

function Cameras({ id, name, is_online }: { id: string; name: string; is_online: boolean }) {
  const search = useSearch({ from: "/app/robots/$id/camera" });
  const navigate = useNavigate({ from: "/robots/$id/camera" });
  const { cameras, why, again } = useCameras(id, is_online);
  if (why !== undefined) return <NothingLive why={why} command={commandOf(id, search)} onAgain={again} />;
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
      <Controls
        cameras={cameras}
        search={{ ...search, ...(camera === undefined ? {} : { camera }) }}
        onSearch={(part) => void navigate({ search: (old) => clean({ ...old, ...part }), replace: true })}
      />
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

/** Removes undefined fields. */
const clean = (search: Partial<Record<keyof CameraSearch, unknown>>): CameraSearch => JSON.parse(JSON.stringify(search)) as CameraSearch;

interface ControlsProps {
  cameras: readonly Camera[];
  search: CameraSearch;
  onSearch: (part: Partial<Record<keyof CameraSearch, unknown>>) => void;
}

function Controls({ cameras, search: { camera, fps, width, quality }, onSearch }: ControlsProps) {
  const numbers = (values: readonly number[], unit: string) =>
    values.map((value) => ({ value: String(value), label: `≤ ${value} ${unit}` }));
  const of = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
  const number = (value: string | undefined): number | undefined => (value === undefined ? undefined : Number(value));
  return (
    <div className="flex flex-wrap items-center gap-2" role="group" aria-label="Camera settings">
      <select
        aria-label="Camera"
        value={camera}
        onChange={({ target }) => onSearch({ camera: target.value })}
        className="h-8 max-w-56 rounded-md border border-line-strong bg-surface px-2.5"
      >
        {cameras.map(({ name, kind }) => (
          <option key={name} value={name}>
            {name} ({kind.replaceAll("_", " ")})
          </option>
        ))}
        {camera !== undefined && !cameras.some(({ name }) => name === camera) && <option value={camera}>{camera} (not available)</option>}
      </select>
      <FilterSelect
        label="Rate"
        value={of(fps)}
        options={numbers(RATES, "a second")}
        onChange={(value) => onSearch({ fps: number(value) })}
      />
      <FilterSelect
        label="Width"
        value={of(width)}
        options={numbers(WIDTHS, "pixels")}
        onChange={(value) => onSearch({ width: number(value) })}
      />
      <FilterSelect
        label="Quality"
        value={of(quality)}
        options={numbers(QUALITIES, "of 100")}
        onChange={(value) => onSearch({ quality: number(value) })}
      />
    </div>
  );
}

function commandOf(id: string, { camera, fps, width, quality }: CameraSearch): string {
  const flags = Object.entries({ camera, fps, width, quality }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name} ${shellWord(String(value))}`],
  );
  return ["rf robots camera", id, ...flags].join(" ");
}
