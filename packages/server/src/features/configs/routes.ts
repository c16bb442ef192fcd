import { access } from "@roamfleet/protocol";
import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { authorize } from "../../kernel/authorize.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { Answer, created, serve } from "../../kernel/serve.ts";
import { readRobotConfigDiff } from "./diff.ts";
import { isSecretVersion, listHistory, removeConfig, rollBackConfig } from "./history.ts";
import { readRobotConfig } from "./robot-config.ts";
import { listSchemas, listSchemasOf } from "./schema-store.ts";
import { putSchema, removeSchema, requireSchema } from "./schemas.ts";
import { requireScopeObject, setConfig } from "./set.ts";
import { type EntryRow, findEntry, listEntries, listPlaces } from "./store.ts";
import { schemaToWire, toWire } from "./wire.ts";

/** Requires the role admin, which secrets need. */
const asAdmin = (name: "setConfig" | "rollBackConfig") => ({
  ...access[name],
  access: "admin" as const,
  objects: access[name].objects.map((object) => ({ ...object, role: "admin" as const })),
});

export function configRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigs, async (_, { query, caller, db }) => {
    if (query.scope_id !== undefined) await requireScopeObject(db, caller.org_id, query.scope, query.scope_id);
    const page = await readPage(
      query,
      [routes.listConfigs.name, caller.org_id],
      (window) => listEntries(db, caller, query, window),
      ({ id }) => id,
      (entry: EntryRow) => entry,
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
    const entry = await findEntry(db, caller.org_id, params.id);
    if (entry === undefined) throw notFound("config", params.id);
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
    const [robot] = await listPlaces(db, caller.org_id, [params.id]);
    if (robot === undefined) throw notFound("robot", params.id);
    return { data: await readRobotConfig(db, caller.org_id, robot.id) };
  });

  serve(http, plane, routes.diffRobotConfig, async (_, { params, query, caller, db }) => {
    const [robot] = await listPlaces(db, caller.org_id, [params.id]);
    if (robot === undefined) throw notFound("robot", params.id);
    return { data: await readRobotConfigDiff(db, plane, caller.org_id, robot.id, query.namespace ?? null) };
  });
}

function schemaRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigSchemas, async (_, { query, caller, db }) =>
    readPage(
      query,
      [routes.listConfigSchemas.name, caller.org_id],
      (window) => listSchemas(db, caller.org_id, window),
      ({ namespace }) => namespace,
      schemaToWire,
    ),
  );
  serve(http, plane, routes.getConfigSchema, async (_, { params, caller, db }) => ({
    data: schemaToWire(await requireSchema(db, caller.org_id, params.namespace)),
  }));
  serve(http, plane, routes.setConfigSchema, async (_, { params, body, caller, db }) => {
    const row = await putSchema(plane, db, caller, params.namespace, body.schema);
    return new Answer(row.schema_version === 1 ? 201 : 200, { data: schemaToWire(row) });
  });
  serve(http, plane, routes.deleteConfigSchema, async (_, { params, caller, db }) => ({
    data: schemaToWire(await removeSchema(plane, db, caller, params.namespace)),
  }));
}
