import type { SavedView } from "@roamfleet/protocol/routes";
import type { ViewPage } from "@roamfleet/protocol/states";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Bookmark, Check, HardDriveUpload, Link2, Pencil, Plus, Save, Trash2, Users } from "lucide-react";
import { query, useAction } from "../../api/queries.ts";
import { useOpenView } from "../../api/saved-views.ts";
import { useMayInWholeOrg, useMe } from "../../api/session.ts";
import { isSameView, readView, viewQuery } from "../../api/view-query.ts";
import { hasFilters } from "../../search.ts";
import {
  Blank,
  Button,
  copy,
  counted,
  Menu,
  type MenuEntry,
  notifyDone,
  notifyError,
  showTableAs,
  type TableView,
  TextLine,
} from "../../ui/index.ts";
import { readBrowserViews, writeBrowserViews } from "./browser-views.ts";
import { useActiveView } from "./use-active-view.ts";
import { DeleteView, RenameView, SaveView, ShareView } from "./view-dialogs.tsx";

interface ViewsMenuProps {
  page: ViewPage;
  /** The URL parameters that a view of this page stores. */
  search: object;
  /** The page's table, if it has settings. */
  table?: Pick<TableView<unknown>, "table" | "choice">;
}

type Entries = (MenuEntry | false | undefined)[];

/** The menu of a page's saved views. Its button shows the name of the view that is open, and whether it has unsaved changes. */
export function ViewsMenu({ page, search, table }: ViewsMenuProps) {
  const content = { search, table: table?.choice };
  const list = useQuery(query("listViews"));
  const views = (list.data?.items ?? []).filter((view) => view.page === page).toSorted((a, b) => a.name.localeCompare(b.name));
  const active = useActiveView(views, content, table?.table);
  const is_modified = active !== undefined && !isSameView(active.query, content);
  const navigate = useNavigate();
  const openView = useOpenView();
  const open = (view: SavedView): void => {
    const { table: columns } = readView(view.query);
    // Opening the open view again discards its unsaved changes.
    if (view.id === active?.id && table !== undefined && columns !== undefined) showTableAs(table.table, columns);
    openView(view);
  };
  const leave = (): void => void navigate({ to: ".", search: {} as never });
  const actions = useActions({ page, active, is_modified, content_query: viewQuery(content) });
  const [first, ...others] = actions.filter((entry) => entry !== false && entry !== undefined);
  return (
    <Menu
      label="Views"
      trigger={
        <Button icon={Bookmark} className="max-w-64 max-sm:max-w-36">
          {active === undefined ? "Views" : <TextLine>{active.name}</TextLine>}
          {is_modified && <ModifiedMark />}
        </Button>
      }
      entries={[
        { label: "Default view", icon: active === undefined && !hasFilters(search) ? Check : Blank, onSelect: leave },
        ...views.map((view) => ({
          key: view.id,
          label: view.name,
          hint: view.shared ? "shared" : undefined,
          icon: view.id === active?.id ? Check : Blank,
          onSelect: () => open(view),
        })),
        list.data === undefined && {
          label: list.error === null ? "Loading…" : `Views not loaded: ${list.error.message}`,
          icon: Blank,
          disabled: true,
        },
        first !== undefined && { ...first, divided: true },
        ...others,
      ]}
    />
  );
}

/** The word "modified"; on narrow screens a dot. */
const ModifiedMark = () => (
  <span className="shrink-0 text-xs font-normal text-muted">
    <span aria-hidden className="block size-1.5 rounded-full bg-warn sm:hidden" />
    <span className="max-sm:sr-only">modified</span>
  </span>
);

interface ActionsProps {
  page: ViewPage;
  active: SavedView | undefined;
  is_modified: boolean;
  /** The query of a view with what the page shows. */
  content_query: string;
}

/** Returns the actions on the open view, and those that save views. */
function useActions({ page, active, is_modified, content_query }: ActionsProps): Entries {
  const may_share = useMayInWholeOrg("operator");
  const saving = useAction("updateView", { done: "View saved" });
  const moving = useMoveBrowserViews(page);
  const save: Entries = [
    active === undefined || is_modified
      ? {
          label: active === undefined ? "Save view…" : "Save as new view…",
          icon: Plus,
          renderDialog: (close) => <SaveView page={page} query={content_query} onClose={close} />,
        }
      : undefined,
    moving,
    {
      label: "Copy link to this page",
      icon: Link2,
      onSelect: () => void copy(window.location.href).then(() => notifyDone("Link copied"), notifyError),
    },
  ];
  if (active === undefined || (active.shared && !may_share)) return save;
  return [
    is_modified && {
      label: "Save changes",
      icon: Save,
      sends: true,
      onSelect: () => saving.mutate({ params: { id: active.id }, body: { query: content_query } }),
    },
    ...save,
    { label: "Rename view…", icon: Pencil, renderDialog: (close) => <RenameView view={active} onClose={close} /> },
    may_share && {
      label: active.shared ? "Stop sharing view…" : "Share view…",
      icon: Users,
      renderDialog: (close) => <ShareView view={active} onClose={close} />,
    },
    { label: "Delete view…", icon: Trash2, danger: true, renderDialog: (close) => <DeleteView view={active} onClose={close} /> },
  ];
}

/** Returns the entry that moves views which an earlier version stored in this browser to the server; false if there are none. */
function useMoveBrowserViews(page: ViewPage): MenuEntry | false {
  const { org } = useMe();
  const creating = useAction("createView", { quiet: true });
  const views = page === "robots" ? readBrowserViews(org.id) : [];
  if (views.length === 0) return false;
  /** Moves one view after the other. The first that the server refuses, and later ones, stay in the browser. */
  const move = async (): Promise<void> => {
    for (const [at, { name, search }] of views.entries()) {
      await creating.mutateAsync({ body: { page, name, query: viewQuery({ search }) } });
      writeBrowserViews(org.id, views.slice(at + 1));
    }
  };
  return {
    label: `Move ${counted(views.length, "view")} of this browser here`,
    icon: HardDriveUpload,
    sends: true,
    onSelect: () => void move().then(() => notifyDone("Views moved"), notifyError),
  };
}
