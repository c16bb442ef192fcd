import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { Answer, created, serve } from "../../kernel/serve.ts";
import { announce } from "../events/index.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { createKey } from "./create.ts";
import { enroll } from "./enroll.ts";
import { createReplacementKey } from "./replace.ts";
import { findKey, listKeys, revokeKey } from "./store.ts";
import { toWire } from "./wire.ts";

export function enrollmentRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listEnrollmentKeys, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.site_id !== undefined) await requireSite(db, org_id, query.site_id);
    if (query.fleet_id !== undefined) await requireFleet(db, org_id, query.fleet_id);
    const now = plane.clock.now();
    const scope = [routes.listEnrollmentKeys.name, org_id];
    return readPage(
      query,
      scope,
      (window) => listKeys(db, caller, query, now, window),
      ({ id }) => id,
      (key) => toWire(key, now),
    );
  });

  serve(http, plane, routes.createEnrollmentKey, async (_, { body, caller, db }) =>
    created(routes.createEnrollmentKey.path, { data: await createKey(plane, db, caller, body) }),
  );

  serve(http, plane, routes.replaceRobot, async (_, { params, caller, db }) =>
    created(routes.createEnrollmentKey.path, { data: await createReplacementKey(plane, db, caller, params.id) }),
  );

  serve(http, plane, routes.getEnrollmentKey, async (_, { params, caller, db }) => {
    const key = await findKey(db, caller.org_id, params.id);
    if (key === undefined) throw notFound("enrollment key", params.id);
    return { data: toWire(key, plane.clock.now()) };
  });

  serve(http, plane, routes.revokeEnrollmentKey, async (_, { params, caller, db }) => {
    const now = plane.clock.now();
    const key = await revokeKey(db, caller.org_id, params.id, now);
    if (key === undefined) throw notFound("enrollment key", params.id);
    if (key.revoked_at?.getTime() === now.getTime())
      announce(db, plane, caller.org_id, { kind: "enrollment_key", id: key.id, change: "updated", fleet_id: key.fleet_id });
    return { data: toWire(key, now) };
  });

  serve(http, plane, routes.enrollRobot, async (_, { body, ip }) => {
    const { is_new, data } = await enroll(plane, body, ip);
    return is_new ? new Answer(201, { data }, { location: `/api/robots/${data.robot_id}` }) : { data };
  });
}
