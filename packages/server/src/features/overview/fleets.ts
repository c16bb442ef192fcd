import type { FleetOverview } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import { wireTime } from "../../kernel/time.ts";
import { countVersions, type FleetFilter, type FleetStateRow, listFleetStates, type VersionRow } from "./store-fleets.ts";

/** Maximum fleets in the overview. The list of fleets shows all of them. */
const FLEETS_SHOWN = 100;
const VERSIONS_SHOWN = 5;
/** Bounds of the releases of all fleets together. */
const BOUNDS = { apps_max: 10, versions_max: 8 };

export async function readFleets(plane: Plane, caller: Caller, filter: FleetFilter = {}): Promise<FleetOverview> {
  const db = plane.db.forOrg(caller.org_id);
  const fleets = await listFleetStates(db, caller, filter, FLEETS_SHOWN);
  const ids = fleets.map(({ fleet_id }) => fleet_id);
  const rows = ids.length === 0 ? [] : await countVersions(db, caller, filter, ids, BOUNDS);
  const versions = Map.groupBy(rows, ({ fleet_id }) => fleet_id);
  return {
    fleet_count: fleets[0]?.fleet_count ?? 0,
    fleets: fleets.map((fleet) => toWire(fleet, versions.get(fleet.fleet_id) ?? [])),
    apps: [...Map.groupBy(versions.get(null) ?? [], ({ app }) => app)]
      .slice(0, BOUNDS.apps_max)
      .map(([app, of]) => ({ app, total: of[0]?.app_total ?? 0, versions: of.map(versionToWire) })),
  };
}

const versionToWire = ({ release_id, tag, count }: VersionRow) => ({ release_id, tag, count });

/** `versions` is sorted: versions of the app that most robots run come first. */
function toWire(fleet: FleetStateRow, versions: readonly VersionRow[]): FleetOverview["fleets"][number] {
  const {
    fleet_count: _,
    deployment_id,
    deployment_kind,
    deployment_status,
    deployment_at,
    deployment_waits,
    last_lost_at,
    ...state
  } = fleet;
  const app = versions[0]?.app ?? null;
  return {
    ...state,
    last_lost_at: wireTime(last_lost_at),
    app,
    versions: versions
      .filter((version) => version.app === app)
      .slice(0, VERSIONS_SHOWN)
      .map(versionToWire),
    newest_deployment:
      deployment_id === null || deployment_kind === null || deployment_status === null || deployment_at === null
        ? null
        : {
            id: deployment_id,
            kind: deployment_kind,
            status: deployment_status,
            awaiting_promotion: deployment_waits === true,
            created_at: wireTime(deployment_at),
          },
  };
}
