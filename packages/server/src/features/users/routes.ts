import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { Answer, created, serve } from "../../kernel/serve.ts";
import { addUser, changeUser, readUser, removeUser } from "./change.ts";
import { listHoldings } from "./store-holdings.ts";
import { listUsers } from "./store.ts";
import { toWire } from "./wire.ts";

export function userRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listUsers, (_, { query, caller, db }) =>
    readPage(
      query,
      [routes.listUsers.name, caller.org_id],
      (window) => listUsers(db, caller.org_id, query, window),
      ({ id }) => id,
      toWire,
    ),
  );

  serve(http, plane, routes.createUser, async (_, { body, caller, db }) => {
    const { is_new, user } = await addUser(plane, db, caller.org_id, body);
    return is_new ? created(routes.createUser.path, { data: user }) : new Answer(200, { data: user });
  });

  serve(http, plane, routes.getUser, async (_, { params, caller, db }) => ({ data: toWire(await readUser(db, caller.org_id, params.id)) }));

  serve(http, plane, routes.updateUser, async (_, { params, body, caller, db }) => ({
    data: await changeUser(plane, db, caller.org_id, params.id, body),
  }));

  serve(http, plane, routes.listUserHoldings, async (_, { params, caller, db }) => {
    const { id } = await readUser(db, caller.org_id, params.id);
    return { items: await listHoldings(db, caller.org_id, id, plane.clock.now()), next_cursor: null };
  });

  serve(http, plane, routes.deleteUser, async (_, { params, caller, db }) => ({
    data: await removeUser(plane, db, caller.org_id, params.id),
  }));
}
