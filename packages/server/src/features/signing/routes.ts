import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { changeKeys } from "./change-keys.ts";
import { listStatements } from "./store.ts";
import { toWire } from "./wire.ts";

export function signingRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getSigningKeys, async (_, { caller: { org_id }, db }) => ({
    data: toWire(org_id, await listStatements(db, org_id, 0)),
  }));

  serve(http, plane, routes.changeSigningKeys, async (_, { body, caller, db }) => ({ data: await changeKeys(plane, db, caller, body) }));

  serve(http, plane, routes.listAgentSigning, async (_, { query, caller: { org_id }, db }) => ({
    items: (await listStatements(db, org_id, query.after ?? 0)).map(({ statement }) => statement),
  }));
}
