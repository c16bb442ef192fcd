import { ID_PREFIXES } from "@robofleet/protocol";
import { routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isUniqueViolation } from "../../engines/db/index.ts";
import { conflict, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { approve } from "./approve.ts";
import { insertOrg, listOrgs } from "./store.ts";
import { toWire } from "./wire.ts";

export function orgRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listOrgs, (_, { query, db }) =>
    readPage(
      query,
      [routes.listOrgs.name],
      (window) => listOrgs(db, query.status, window),
      ({ id }) => id,
      toWire,
    ),
  );

  serve(http, plane, routes.createOrg, async (_, { body, db }) => {
    try {
      const org = await insertOrg(db, { id: plane.id(ID_PREFIXES.org), name: body.name, status: "pending", at: plane.clock.now() });
      return created(routes.createOrg.path, { data: toWire(org) });
    } catch (error) {
      if (isUniqueViolation(error)) throw conflict(`an org with the name ${printable(body.name)} exists already`);
      throw error;
    }
  });

  serve(http, plane, routes.approveOrg, async (_, { params, db }) => ({ data: await approve(plane, db, params.id) }));
}
