import { routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { readRobotConfig } from "./robot-config.ts";
import { requireScopeObject, setConfig } from "./set.ts";
import { deleteEntry, findEntry, listEntries, listPlaces } from "./store.ts";
import { toWire } from "./wire.ts";

export function configRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigs, async (_, { query, caller, db }) => {
    if (query.scope_id !== undefined) await requireScopeObject(db, caller.org_id, query.scope, query.scope_id);
    return readPage(
      query,
      [routes.listConfigs.name, caller.org_id],
      (window) => listEntries(db, caller, query, window),
      ({ id }) => id,
      toWire,
    );
  });

  serve(http, plane, routes.setConfig, async (_, { body, caller, db }) => {
    const data = toWire(await setConfig(plane, db, caller, body));
    return data.version === 1 ? created("/api/configs", { data }) : { data };
  });

  serve(http, plane, routes.getConfig, async (_, { params, caller, db }) => {
    const entry = await findEntry(db, caller.org_id, params.id);
    if (entry === undefined) throw notFound("config", params.id);
    return { data: toWire(entry) };
  });

  serve(http, plane, routes.deleteConfig, async (_, { params, caller, db }) => {
    const entry = await deleteEntry(db, caller.org_id, params.id);
    if (entry === undefined) throw notFound("config", params.id);
    return { data: toWire(entry) };
  });

  serve(http, plane, routes.getRobotConfig, async (_, { params, caller, db }) => {
    const [robot] = await listPlaces(db, caller.org_id, [params.id]);
    if (robot === undefined) throw notFound("robot", params.id);
    return { data: await readRobotConfig(db, caller.org_id, robot.id) };
  });
}
