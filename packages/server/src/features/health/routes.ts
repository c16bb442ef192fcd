import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { Fault, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { readHistory } from "./read-history.ts";
import { findSnapshot } from "./store.ts";

export function healthRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getRobotHealth, async (_, { db, caller, params }) => {
    const found = await findSnapshot(db, caller.org_id, params.id);
    if (found === undefined) throw notFound("robot", params.id);
    if (found.snapshot === null || found.received_at === null)
      throw new Fault("not_found", `health snapshot of robot ${params.id} does not exist: it has not sent any yet`);
    return { data: { robot_id: params.id, received_at: wireTime(found.received_at), ...found.snapshot } };
  });

  serve(http, plane, routes.getRobotHealthHistory, async (_, { db, caller, params, query }) => {
    const found = await findSnapshot(db, caller.org_id, params.id);
    if (found === undefined) throw notFound("robot", params.id);
    return { items: await readHistory(plane, db, caller.org_id, params.id, found, query) };
  });
}
