import { routes, type Stats } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { approve, reject } from "./approve.ts";
import { changeOwnOrg, requireOrg, resume, suspend } from "./change.ts";
import { addOrg, createOrgRequests } from "./request.ts";
import { listOrgs, readStats } from "./store.ts";
import { toOwnWire, toWire } from "./wire.ts";

export function orgRoutes(http: Http, plane: Plane): void {
  serveOwnOrg(http, plane);

  serve(http, plane, routes.listOrgs, (_, { query, db }) =>
    readPage(
      query,
      [routes.listOrgs.name],
      (window) => listOrgs(db, query.status, window),
      ({ id }) => id,
      toWire,
    ),
  );

  serve(http, plane, routes.createOrg, async (_, { body, db }) =>
    created(routes.createOrg.path, { data: toWire(await addOrg(plane, db, body.name, body.email)) }),
  );

  serve(http, plane, routes.getAnyOrg, async (_, { params, db }) => ({ data: toWire(await requireOrg(db, params.id)) }));
  serve(http, plane, routes.approveOrg, async (_, { params, db }) => ({ data: await approve(plane, db, params.id) }));
  serve(http, plane, routes.rejectOrg, async (_, { params, db }) => ({ data: await reject(db, params.id) }));
  serve(http, plane, routes.suspendOrg, async (_, { params, db }) => ({ data: await suspend(plane, db, params.id) }));
  serve(http, plane, routes.resumeOrg, async (_, { params, db }) => ({ data: await resume(plane, db, params.id) }));
  serve(http, plane, routes.getStats, async (_, { db }) => ({ data: await figures(db) }));
}

/** Serves the routes for requesting an org, and for members of an org. */
function serveOwnOrg(http: Http, plane: Plane): void {
  const request = createOrgRequests(plane);

  serve(http, plane, routes.requestOrg, async (_, { body, db, ip }) => ({ data: await request(db, ip, body) }));

  serve(http, plane, routes.getOrg, async (_, { caller, db }) => ({ data: toOwnWire(await requireOrg(db, caller.org_id)) }));

  serve(http, plane, routes.updateOrg, async (_, { body, caller, db }) => ({ data: await changeOwnOrg(plane, db, caller.org_id, body) }));
}

async function figures(db: Db): Promise<Stats> {
  const { orgs_pending: pending, orgs_active: active, orgs_suspended: suspended, ...rest } = await readStats(db);
  return {
    orgs: { total: pending + active + suspended, pending, active, suspended },
    robots: { total: rest.robots_total, online: rest.robots_online },
    deployments: { scheduled: rest.deployments_scheduled, running: rest.deployments_running },
    database: { size_bytes: rest.database_bytes },
  };
}
