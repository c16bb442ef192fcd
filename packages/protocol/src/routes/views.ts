import { Type } from "typebox";
import { Maybe, OneOf, Shape } from "../schema.ts";
import { VIEW_PAGES } from "../states.ts";
import { Actor, DataOf, defineRoutes, Entity, Id, ListOf, Name, type Of, page, stamps, withoutDefaults } from "./route.ts";

/** Maximum characters of a view's query. The largest page of metrics, 8 panels with 20 robots each, needs about 7,000. */
const QUERY_CHARACTERS_MAX = 8_000;
const Query = Type.String({
  maxLength: QUERY_CHARACTERS_MAX,
  description: "Filters, sorting and columns, as the query of a URL of the dashboard. The server does not interpret it",
});
const Shared = Type.Boolean({
  description:
    "true: for all members of the org; sharing needs the role operator in the whole org. false: only for the user or token that owns it",
  default: false,
});

export const SavedView = Entity("SavedView", {
  id: Id,
  page: OneOf(VIEW_PAGES),
  name: Type.String(),
  query: Type.String(),
  shared: Type.Boolean(),
  created_by: Actor,
  ...stamps,
});
export type SavedView = Of<typeof SavedView>;

export const viewRoutes = defineRoutes("Views", {
  listViews: {
    summary: "List saved views of the dashboard: the caller's and shared ones",
    query: Shape({ ...page }),
    responses: { 200: ListOf(SavedView) },
  },
  createView: {
    summary: "Save a view of a page of the dashboard",
    body: Shape({ page: OneOf(VIEW_PAGES), name: Name, query: Query, shared: Maybe(Shared) }),
    sameBody: withoutDefaults({ shared: false }),
    responses: { 201: DataOf(SavedView) },
    errors: [409],
  },
  updateView: {
    summary: "Rename or change a saved view, share it, or stop sharing it",
    body: Shape({ name: Maybe(Name), query: Maybe(Query), shared: Maybe(Type.Boolean()) }),
    responses: { 200: DataOf(SavedView) },
    errors: [409],
  },
  deleteView: {
    summary: "Delete a saved view",
    responses: { 200: DataOf(SavedView) },
  },
});
