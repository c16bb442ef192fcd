import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTimes } from "../../kernel/time.ts";
import { listIncidents } from "./store-incidents.ts";
import { listRules } from "./store-rules.ts";

export function alertRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listAlertRules, (_, { query, caller, db }) =>
    readPage(query, [routes.listAlertRules.name, caller.org_id], (window) => listRules(db, caller.org_id, window), wireTimes),
  );

  serve(http, plane, routes.listIncidents, async (_, { query, caller, db }) => {
    const { site_id } = query;
    if (site_id !== undefined) found((await plane.findPlaces(db, caller.org_id, "site", [site_id], [])).get(site_id), "site", site_id);
    return await readPage(
      query,
      [routes.listIncidents.name, caller.org_id],
      (window) => listIncidents(db, caller, query, window),
      wireTimes,
    );
  });
}
