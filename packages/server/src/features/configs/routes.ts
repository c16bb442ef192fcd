import { type ConfigEntry, type RobotConfig, routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { effectiveConfig } from "./effective.ts";
import { setConfig } from "./set.ts";
import { deleteEntry, type EntryRow, findEntry, listDeployed, listEntries, scopeExists } from "./store.ts";

const toWire = ({ value_schema, ...row }: EntryRow): ConfigEntry => ({
  ...row,
  scope_id: row.scope_id === "" ? null : row.scope_id,
  schema: value_schema,
  created_at: wireTime(row.created_at),
  updated_at: wireTime(row.updated_at),
});

export function configRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigs, async (_, { db, caller, query }) =>
    readPage(query, ["listConfigs", caller.org_id], (window) => listEntries(db, caller.org_id, query, window), ({ id }) => id, toWire),
  );
  serve(http, plane, routes.setConfig, async (_, { db, caller, body }) => {
    const { entry, inserted } = await setConfig(db, plane, caller, body);
    const answer = { data: toWire(entry) };
    return inserted ? new Answer(201, answer, { location: `/api/configs/${entry.id}` }) : new Answer(200, answer);
  });
  serve(http, plane, routes.getConfig, async (_, { db, caller, params }) => {
    const entry = await findEntry(db, caller.org_id, params.id);
    if (entry === undefined) throw notFound("config", params.id);
    return { data: toWire(entry) };
  });
  serve(http, plane, routes.deleteConfig, async (_, { db, caller, params }) => {
    const entry = await deleteEntry(db, caller.org_id, params.id);
    if (entry === undefined) throw notFound("config", params.id);
    return { data: toWire(entry) };
  });
  serve(http, plane, routes.getRobotConfig, async (_, { db, caller, params }) => {
    const { org_id } = caller;
    if (!(await scopeExists(db, org_id, "robot", params.id))) throw notFound("robot", params.id);
    const effective = await effectiveConfig(db, org_id, params.id, null);
    const deployed = await listDeployed(db, org_id, params.id);
    const data: RobotConfig = {
      robot_id: params.id,
      config_state: worst(deployed.map(({ state }) => state)),
      effective: effective.map(({ robot_id: _robot, scope_id, ...value }) => ({ ...value, scope_id: scope_id === "" ? null : scope_id })),
      namespaces: deployed.map(({ namespace, version, sha256, reported_sha256, state }) => ({ namespace, deployed_version: version, deployed_sha256: sha256, reported_sha256, state })),
    };
    return { data };
  });
}

/** Nothing was ever deployed: unknown. */
function worst(states: readonly RobotConfig["config_state"][]): RobotConfig["config_state"] {
  for (const state of ["drifted", "pending", "in_sync"] as const) if (states.includes(state)) return state;
  return "unknown";
}
