import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Release } from "@roamfleet/protocol/routes";
import { Upload } from "lucide-react";
import { useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { useMay } from "../../api/session.ts";
import { Button, EmptyState, ErrorState, FilterSelect, PageHeader, SearchInput, Skeleton } from "../../ui/index.ts";
import { PageDrop } from "./file-drop.tsx";
import { PushDialog } from "./push-dialog.tsx";
import { PushPanel } from "./push-panel.tsx";
import { ReleasesTable } from "./releases-table.tsx";

export interface ReleasesSearch {
  q?: string;
  app?: string;
  kind?: string;
}

const keyOf = ({ id }: Release): string => id;
const KINDS = ["container_image", "app_bundle", "file"];

/** The list of releases, with a dialog that pushes new ones. */
export function ReleasesPage() {
  const search: ReleasesSearch = useSearch({ from: "/app/releases" });
  const navigate = useNavigate();
  const may_push = useMay("operator");
  const [pushing, setPushing] = useState<{ file: File | undefined }>();
  const list = useLivePages("listReleases", keyOf, { query: search });
  const set = (change: Partial<Record<keyof ReleasesSearch, string | undefined>>): void => {
    const next = Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined && value !== "");
    void navigate({ to: "/releases", search: Object.fromEntries(next), replace: true });
  };
  const push = <Upload size={14} aria-hidden />;
  return (
    <>
      <PageHeader
        title="Releases"
        label="Releases"
        actions={
          may_push && (
            <Button look="primary" icon={push} onClick={() => setPushing({ file: undefined })}>
              Push release
            </Button>
          )
        }
      />
      {may_push && <PageDrop onFile={(file) => setPushing({ file })}>Drop the file to push it as a release</PageDrop>}
      {pushing !== undefined && (
        <PushDialog file={pushing.file} onFile={(file) => setPushing({ file })} onClose={() => setPushing(undefined)} />
      )}
      <PushPanel />
      <Filters search={search} rows={list.rows} onChange={set} />
      {list.query.data === undefined ? (
        list.query.isError ? (
          <ErrorState error={list.query.error} onRetry={() => void list.query.refetch()} />
        ) : (
          <Skeleton rows={8} />
        )
      ) : (
        <ReleasesTable list={list} empty={<Nothing is_filtered={Object.keys(search).length > 0} may_push={may_push} />} />
      )}
    </>
  );
}

function Filters({
  search,
  rows,
  onChange,
}: {
  search: ReleasesSearch;
  rows: readonly Release[];
  onChange: (change: Partial<Record<keyof ReleasesSearch, string | undefined>>) => void;
}) {
  // The known values, and the selected one even if no release has it.
  const choices = (known: readonly string[], chosen: string | undefined, of: (row: Release) => string) =>
    [...new Set([...known, ...rows.map(of), ...(chosen === undefined ? [] : [chosen])])]
      .toSorted()
      .map((value) => ({ value, label: value }));
  return (
    <div role="search" className="mb-3 flex flex-wrap items-center gap-2">
      <SearchInput label="Search tags" value={search.q ?? ""} maxLength={200} onChange={(event) => onChange({ q: event.target.value })} />
      <FilterSelect
        label="App"
        value={search.app}
        options={choices([], search.app, ({ app }) => app)}
        onChange={(app) => onChange({ app })}
      />
      <FilterSelect
        label="Kind"
        value={search.kind}
        options={choices(KINDS, search.kind, ({ kind }) => kind)}
        onChange={(kind) => onChange({ kind })}
      />
    </div>
  );
}

function Nothing({ is_filtered, may_push }: { is_filtered: boolean; may_push: boolean }) {
  if (is_filtered) return <EmptyState title="No matching releases">Change or clear the filters above.</EmptyState>;
  return (
    <EmptyState title="No releases yet" command="rf releases push FILE">
      {may_push
        ? "Drop a file on this page: an app bundle, an image archive, or any file that robots need."
        : "Users with the operator role can push releases."}
    </EmptyState>
  );
}
