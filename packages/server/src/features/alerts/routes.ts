import { type AlertRule, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { changesBetween } from "../../kernel/audit.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readHistory, readPage } from "../../kernel/page.ts";
import { Answer, created, serve } from "../../kernel/serve.ts";
import { wireTimes } from "../../kernel/time.ts";
import { acknowledge, addComment, assign, readIncident, resolve } from "./incidents.ts";
import { createMute, removeMute } from "./mutes.ts";
import { changeRule, createRule, newRule, readRule, removeRule, withChanges } from "./rules.ts";
import { type IncidentFilter, listEntries, listIncidents, listMembers } from "./store-shown.ts";
import { listMutes } from "./store-mutes.ts";
import { findRule, listRules, type RuleRow } from "./store-rules.ts";
import { testRule } from "./test-rule.ts";

export function alertRoutes(http: Http, plane: Plane): void {
  ruleRoutes(http, plane);
  muteRoutes(http, plane);
  incidentRoutes(http, plane);
}

const toWire = (rule: RuleRow): AlertRule => wireTimes(rule);

function ruleRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listAlertRules, (_, { query, caller, db }) =>
    readPage(query, [routes.listAlertRules.name, caller.org_id], (window) => listRules(db, caller, window), toWire),
  );

  serve(http, plane, routes.createAlertRule, async (_, { body, caller, db }) => {
    if (body.dry_run !== true) return created(routes.createAlertRule.path, { data: toWire(await createRule(db, plane, caller, body)) });
    const rule = await withChanges(db, plane, caller, newRule(plane, body), body);
    return new Answer(200, { data: await testRule(db, plane, caller.org_id, rule) });
  });

  serve(http, plane, routes.getAlertRule, async (_, { params, caller, db }) => ({
    data: toWire(await readRule(db, caller.org_id, params.id)),
  }));

  serve(http, plane, routes.updateAlertRule, async (_, { params, body, caller, db, audit }) => {
    const { before, after } = await changeRule(db, plane, caller, params.id, body);
    audit.data = changesBetween(toWire(before), toWire(after), [
      "name",
      "condition",
      "severity",
      "site_id",
      "fleet_id",
      "labels",
      "for_seconds",
      "disabled_at",
    ]);
    return { data: toWire(after) };
  });

  serve(http, plane, routes.testAlertRule, async (_, { params, body, caller, db }) => {
    const rule = await withChanges(db, plane, caller, await readRule(db, caller.org_id, params.id), body);
    return { data: await testRule(db, plane, caller.org_id, rule) };
  });

  serve(http, plane, routes.deleteAlertRule, async (_, { params, caller, db }) => ({
    data: toWire(await removeRule(db, plane, caller, params.id)),
  }));
}

function muteRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listAlertMutes, (_, { query, caller, db }) => {
    const scope = [routes.listAlertMutes.name, caller.org_id];
    return readPage(query, scope, (window) => listMutes(db, caller, plane.clock.now(), window), wireTimes);
  });

  serve(http, plane, routes.createAlertMute, async (_, { body, caller, db }) =>
    created(routes.createAlertMute.path, { data: wireTimes(await createMute(db, plane, caller, body)) }),
  );

  serve(http, plane, routes.deleteAlertMute, async (_, { params, caller, db }) => ({
    data: wireTimes(await removeMute(db, plane, caller, params.id)),
  }));
}

function incidentRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listIncidents, async (_, { query, caller, db }) => {
    await requireNamed(db, plane, caller, query);
    return await readPage(query, [routes.listIncidents.name, caller.org_id], (window) => listIncidents(db, caller, query, window), asIs);
  });

  serve(http, plane, routes.getIncident, async (_, { params, caller, db }) => ({ data: await readIncident(db, caller.org_id, params.id) }));

  serve(http, plane, routes.listIncidentMembers, async (_, { params, query, caller, db }) => {
    await readIncident(db, caller.org_id, params.id);
    const scope = [routes.listIncidentMembers.name, caller.org_id, params.id];
    return await readPage(
      query,
      scope,
      (window) => listMembers(db, caller, params.id, query.active === true, window),
      asIs,
      ({ subject_id }) => subject_id,
    );
  });

  serve(http, plane, routes.listIncidentEntries, async (_, { params, query, caller, db }) => {
    await readIncident(db, caller.org_id, params.id);
    const scope = [routes.listIncidentEntries.name, caller.org_id, params.id];
    return await readHistory(query, scope, (window) => listEntries(db, caller.org_id, params.id, window));
  });

  serve(http, plane, routes.acknowledgeIncident, async (_, { params, caller, db }) => ({
    data: await acknowledge(db, plane, caller, params.id),
  }));

  serve(http, plane, routes.resolveIncident, async (_, { params, body, caller, db }) => ({
    data: await resolve(db, plane, caller, params.id, body.comment),
  }));

  serve(http, plane, routes.commentIncident, async (_, { params, body, caller, db }) => ({
    data: await addComment(db, plane, caller, params.id, body.comment),
  }));

  serve(http, plane, routes.assignIncident, async (_, { params, body, caller, db }) => ({
    data: await assign(db, plane, caller, params.id, body.user_id),
  }));

  serve(http, plane, routes.unassignIncident, async (_, { params, caller, db }) => ({
    data: await assign(db, plane, caller, params.id, null),
  }));
}

const asIs = <T>(row: T): T => row;

/** Throws 404 if the filter names an object that the org does not have, or a deleted rule without incidents that the caller may see. */
async function requireNamed(db: Db, { findPlaces }: Plane, caller: Caller, filter: IncidentFilter): Promise<void> {
  const named = { site: filter.site_id, fleet: filter.fleet_id, robot: filter.robot_id };
  for (const [kind, id] of Object.entries(named) as [keyof typeof named, string | undefined][])
    if (id !== undefined) found((await findPlaces(db, caller.org_id, kind, [id], [])).get(id), kind, id);
  const { rule_id } = filter;
  if (rule_id === undefined || (await findRule(db, caller.org_id, rule_id)) !== undefined) return;
  // A deleted rule is known by its incidents.
  const [incident] = await listIncidents(db, caller, { rule_id }, { after: null, limit: 1 });
  found(incident, "incident rule", rule_id);
}
