import { access } from "@roamfleet/protocol";
import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { authorize } from "../../kernel/authorize.ts";
import type { Db } from "../../kernel/db.ts";
import { found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { readRobotConfig, readRobotConfigDiff } from "./robot-config.ts";
import { isSecretVersion, listHistory, removeConfig, requireScopeObject, rollBackConfig, setConfig, toWire } from "./set.ts";
import { schemaRoutes } from "./schemas.ts";
import { findEntry, listEntries, listPlaces, listSchemasOf } from "./store.ts";

/** Requires the role admin, because only admins may change secrets. */
const asAdmin = (name: "setConfig" | "rollBackConfig") => ({
  ...access[name],
  access: "admin" as const,
  objects: access[name].objects.map((object) => ({ ...object, role: "admin" as const })),
});

export function configRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigs, async (_, { query, caller, db }) => {
    if (query.scope_id !== undefined) await requireScopeObject(db, caller.org_id, query.scope, query.scope_id);
    const scope = [routes.listConfigs.name, caller.org_id];
    const page = await readPage(
      query,
      scope,
      (window) => listEntries(db, caller, query, window),
      (entry) => entry,
    );
    const schemas = await listSchemasOf(db, caller.org_id, new Set(page.items.map(({ namespace }) => namespace)));
    const by_namespace = new Map(schemas.map(({ namespace, value_schema }) => [namespace, value_schema]));
    return { ...page, items: page.items.map((entry) => toWire(entry, by_namespace.get(entry.namespace) ?? null)) };
  });

  serve(http, plane, routes.setConfig, async (_, call) => {
    const { body, caller, db } = call;
    if (body.secret === true) await authorize(plane.findPlaces, db, caller, asAdmin("setConfig"), call);
    const { entry, schema, is_new } = await setConfig(plane, db, caller, body);
    const data = toWire(entry, schema);
    return is_new ? created("/api/configs", { data }) : { data };
  });

  serve(http, plane, routes.getConfig, async (_, { params, caller, db }) => {
    const entry = found(await findEntry(db, caller.org_id, params.id), "config", params.id);
    const [schema] = await listSchemasOf(db, caller.org_id, [entry.namespace]);
    return { data: toWire(entry, schema?.value_schema ?? null) };
  });

  serve(http, plane, routes.deleteConfig, async (_, { params, caller, db }) => {
    const { entry, schema } = await removeConfig(plane, db, caller, params.id);
    return { data: toWire(entry, schema) };
  });

  serve(http, plane, routes.listConfigHistory, async (_, { params, query, caller, db }) => listHistory(db, caller, params.id, query));

  serve(http, plane, routes.rollBackConfig, async (_, call) => {
    const { params, body, caller, db } = call;
    if (await isSecretVersion(db, caller.org_id, params.id, body.version))
      await authorize(plane.findPlaces, db, caller, asAdmin("rollBackConfig"), call);
    const { entry, schema } = await rollBackConfig(plane, db, caller, params.id, body.version);
    return { data: toWire(entry, schema) };
  });

  schemaRoutes(http, plane);

  serve(http, plane, routes.getRobotConfig, async (_, { params, caller, db }) => {
    await requireRobot(db, caller.org_id, params.id);
    return { data: await readRobotConfig(db, caller.org_id, params.id) };
  });

  serve(http, plane, routes.diffRobotConfig, async (_, { params, query, caller, db }) => {
    await requireRobot(db, caller.org_id, params.id);
    return { data: await readRobotConfigDiff(db, plane, caller.org_id, params.id, query.namespace ?? null) };
  });
}

async function requireRobot(db: Db, org_id: string, id: string): Promise<void> {
  found((await listPlaces(db, org_id, [id]))[0], "robot", id);
}
