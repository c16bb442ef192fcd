import type { RobotPosition } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { Card, counted, FailedSection, hasFailed, LinkButton, Section, Time } from "../../ui/index.ts";
import { useFloorPlan } from "./floor-plan.tsx";
import { MAP_TILES } from "./map-tiles.ts";
import { StillMap } from "./map-view.tsx";
import type { Placed } from "./marker.tsx";
import { usePlaced } from "./use-placed.ts";

/** Maximum robots on a small map, the newest ones. */
const ROBOTS_MAX = 1_000;
const REFRESH_MS = 60_000;
const NO_ROBOTS: readonly RobotPosition[] = [];

interface SmallMapProps {
  title: string;
  scope: { robot_id: string } | { site_id: string };
}

/** The last known position of a robot, or those of a site's robots, with a link to the page of the map. Nothing if none is known. */
export function SmallMap({ title, scope }: SmallMapProps) {
  const options = query("listPositions", { query: { ...scope, known: true, limit: ROBOTS_MAX } });
  const read = useQuery({ ...options, refetchInterval: REFRESH_MS });
  const { data } = read;
  const { frame, placed, is_planar, plan_site } = usePlaced(data?.items ?? NO_ROBOTS, scope);
  const { plan } = useFloorPlan(plan_site);
  const [first] = placed;
  const position = first?.robot.position;
  if (hasFailed(read)) return <FailedSection title={title} query={read} />;
  if (first === undefined || position == null) return null;
  const search = { ...scope, site_id: first.robot.site_id, frame: is_planar ? ("plan" as const) : undefined };
  return (
    <Section
      title={title}
      actions={
        <LinkButton look="quiet" to="/map" search={search}>
          Open map
        </LinkButton>
      }
    >
      <Card className="overflow-hidden !p-0">
        <StillMap frame={frame} robots={placed} tile_url={MAP_TILES?.url} attribution={MAP_TILES?.attribution} plan={plan} />
        <p className="px-3 py-2 text-xs text-muted tabular-nums">
          {"robot_id" in scope ? (
            <>
              {frame.textOf(position)}, <Time at={position.at} />
            </>
          ) : (
            <Ages placed={placed} is_cut={data?.next_cursor !== null} />
          )}
        </p>
      </Card>
    </Section>
  );
}

function Ages({ placed, is_cut }: { placed: readonly Placed[]; is_cut: boolean }) {
  const times = placed.map(({ robot }) => robot.position?.at ?? "").toSorted();
  return (
    <>
      {`${is_cut ? "The newest " : ""}${counted(placed.length, "robot")}. Latest position `}
      <Time at={times.at(-1)} />, earliest <Time at={times[0]} />
    </>
  );
}
