import { ID_PREFIXES } from "@roamfleet/protocol";
import { type BodyOf, routes, type Routes, type SavedView } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mapUniqueViolation } from "../../engines/db/index.ts";
import { type Changed, changesBetween } from "../../kernel/audit.ts";
import { type Caller, requireInWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, found, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { wireTimes } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { countViews, deleteView, insertView, listViews, lockView, ownerOf, updateView, type ViewRow } from "./store.ts";

export { deleteViewsOf } from "./store.ts";

/** Maximum views of one user or token that are not shared, and maximum shared views of an org. */
const OWN_VIEWS_MAX = 100;
const SHARED_VIEWS_MAX = 200;

export function viewRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listViews, (_, { query, caller, db }) =>
    readPage(query, [routes.listViews.name, caller.org_id], (window) => listViews(db, caller, window), toWire),
  );

  serve(http, plane, routes.createView, async (_, { body, caller, db }) =>
    created(routes.createView.path, { data: toWire(await create(plane, db, caller, body)) }),
  );

  serve(http, plane, routes.updateView, async (_, { params, body, caller, db, audit }) => {
    const { before, after } = await change(plane, db, caller, params.id, body);
    audit.data = changesBetween(before, after, ["name", "query", "shared"]);
    return { data: after };
  });

  serve(http, plane, routes.deleteView, async (_, { params, caller, db }) => ({
    data: toWire(await remove(plane, db, caller, params.id)),
  }));
}

const toWire = ({ owner_id, ...view }: ViewRow): SavedView => ({ ...wireTimes(view), shared: owner_id === null });

async function create(
  plane: Plane,
  db: Db,
  caller: Caller,
  { page, name, query, shared = false }: BodyOf<Routes["createView"]>,
): Promise<ViewRow> {
  const now = plane.clock.now();
  const id = plane.id(ID_PREFIXES.saved_view);
  const owner_id = shared ? null : ownerOf(caller);
  const view: ViewRow = { id, page, name, query, owner_id, created_by: caller.actor, created_at: now, updated_at: now };
  requireSharing(caller, view);
  return await db.transaction(async (tx) => {
    await requireRoom(tx, caller.org_id, owner_id);
    await mapUniqueViolation(insertView(tx, caller.org_id, view), () => nameConflict(view));
    announceShared(tx, plane, caller, "created", view);
    return view;
  });
}

/** Changes a view. A shared view that is no longer shared belongs to the caller. */
async function change(
  plane: Plane,
  db: Db,
  caller: Caller,
  id: string,
  { shared, ...body }: BodyOf<Routes["updateView"]>,
): Promise<Changed<SavedView>> {
  return await db.transaction(async (tx) => {
    const before = found(await lockView(tx, caller, id), "view", id);
    const { owner_id, name, query } = before;
    const view: ViewRow = {
      ...before,
      name: body.name ?? name,
      query: body.query ?? query,
      owner_id: shared === undefined ? owner_id : shared ? null : (owner_id ?? ownerOf(caller)),
      updated_at: plane.clock.now(),
    };
    requireSharing(caller, before, view);
    if (view.owner_id !== owner_id) await requireRoom(tx, caller.org_id, view.owner_id);
    await mapUniqueViolation(updateView(tx, caller.org_id, view), () => nameConflict(view));
    announceShared(tx, plane, caller, "updated", before, view);
    return { before: toWire(before), after: toWire(view) };
  });
}

async function remove(plane: Plane, db: Db, caller: Caller, id: string): Promise<ViewRow> {
  return await db.transaction(async (tx) => {
    const view = found(await lockView(tx, caller, id), "view", id);
    requireSharing(caller, view);
    await deleteView(tx, caller.org_id, id);
    announceShared(tx, plane, caller, "removed", view);
    return view;
  });
}

const isShared = ({ owner_id }: ViewRow): boolean => owner_id === null;

/** Throws 403 if a view is shared before or after a change, and the caller may not change shared views. */
function requireSharing(caller: Caller, ...versions: readonly ViewRow[]): void {
  if (versions.some(isShared)) requireInWholeOrg(caller, "operator");
}

/** Throws 409 if an owner, or for null the org, has the maximum number of views. */
async function requireRoom(tx: Db, org_id: string, owner_id: string | null): Promise<void> {
  const max = owner_id === null ? SHARED_VIEWS_MAX : OWN_VIEWS_MAX;
  if ((await countViews(tx, org_id, owner_id)) < max) return;
  throw conflict(owner_id === null ? `the org has ${max} shared views: delete one first` : `you have ${max} views: delete one first`);
}

const nameConflict = ({ page, name, owner_id }: ViewRow): Error =>
  conflict(`${owner_id === null ? "a shared view" : "a view"} of ${page} with the name ${printable(name)} exists already`);

/** Publishes a change of a shared view. Changes of other views concern only their owner. */
function announceShared(tx: Db, plane: Plane, { org_id }: Caller, how: string, ...versions: readonly ViewRow[]): void {
  const [view] = versions;
  if (view !== undefined && versions.some(isShared)) announce(tx, plane, org_id, { kind: "saved_view", id: view.id, change: how });
}
