import { RELEASE_KINDS } from "@roamfleet/protocol/states";
import type { Release } from "@roamfleet/protocol/routes";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ShieldCheck, Upload } from "lucide-react";
import { useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { useMay } from "../../api/session.ts";
import type { ReleasesSearch } from "../../search.ts";
import {
  Badge,
  Button,
  Bytes,
  type Column,
  EmptyState,
  FilterSelect,
  ListTable,
  NameLink,
  NoMatch,
  PageHeader,
  StatusBadge,
  TextLine,
  Time,
  TypedSearch,
  useFilters,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { PageDrop } from "./file-input.tsx";
import { PushDialog } from "./push-dialog.tsx";
import { PushPanel } from "./uploads.tsx";

/** The list of releases, with a dialog that pushes new ones. */
export function ReleasesPage() {
  const { search, change, clear, is_filtered } = useFilters(useSearch({ from: "/app/releases" }));
  const navigate = useNavigate();
  const may_push = useMay("operator");
  const [pushing, setPushing] = useState<{ file: File | undefined }>();
  const list = useLivePages("listReleases", { query: search });
  return (
    <>
      <PageHeader
        title="Releases"
        label="Releases"
        actions={
          <>
            <ViewsMenu page="releases" search={search} />
            {may_push && (
              <Button look="primary" icon={Upload} busy={false} onClick={() => setPushing({ file: undefined })}>
                Push release
              </Button>
            )}
          </>
        }
      />
      {may_push && <PageDrop onFile={(file) => setPushing({ file })}>Drop the file to push it as a release</PageDrop>}
      {pushing !== undefined && (
        <PushDialog file={pushing.file} onFile={(file) => setPushing({ file })} onClose={() => setPushing(undefined)} />
      )}
      <PushPanel />
      <ReleaseFilters search={search} rows={list.rows} onChange={change} />
      <ListTable
        label="Releases"
        list={list}
        columns={COLUMNS}
        onOpen={({ id }) => void navigate({ to: "/releases/$id", params: { id } })}
        empty={is_filtered ? <NoMatch title="No matching releases" onClear={() => clear()} /> : <NoReleases may_push={may_push} />}
      />
    </>
  );
}

interface ReleaseFiltersProps {
  search: ReleasesSearch;
  rows: readonly Release[];
  onChange: (part: ReleasesSearch) => void;
}

function ReleaseFilters({ search, rows, onChange }: ReleaseFiltersProps) {
  // Offer all known values. Include the selected value even if no release has it.
  const choices = (known: readonly string[], chosen: string | undefined, of: (row: Release) => string) =>
    [...new Set([...known, ...rows.map(of), ...(chosen === undefined ? [] : [chosen])])]
      .toSorted()
      .map((value) => ({ value, label: value }));
  return (
    <div role="search" className="mb-3 flex flex-wrap items-center gap-2">
      <TypedSearch label="Search tags" value={search.q} onValue={(q) => onChange({ q })} />
      <FilterSelect
        label="App"
        value={search.app}
        options={choices([], search.app, ({ app }) => app)}
        onChange={(app) => onChange({ app })}
      />
      <FilterSelect
        label="Kind"
        value={search.kind}
        options={choices(RELEASE_KINDS, search.kind, ({ kind }) => kind).map(({ value }) => ({ value, label: value.replaceAll("_", " ") }))}
        onChange={(kind) => onChange({ kind })}
      />
    </div>
  );
}

function NoReleases({ may_push }: { may_push: boolean }) {
  return (
    <EmptyState title="No releases yet" command="rf releases push FILE">
      {may_push
        ? "Push a release, or drop a file on this page: an app bundle, an image archive, or any file that robots need."
        : "Releases appear here when a user with the operator role pushes them."}
    </EmptyState>
  );
}

const COLUMNS: readonly Column<Release>[] = [
  {
    name: "Tag",
    width: "minmax(8rem, 3fr)",
    cell: ({ id, tag }) => <NameLink to="/releases/$id" params={{ id }} name={tag} className="font-medium" />,
  },
  { name: "App", width: "minmax(4rem, 1fr)", priority: 2, cell: ({ app }) => <TextLine>{app}</TextLine> },
  { name: "Kind", width: "minmax(6rem, 1fr)", priority: 3, cell: ({ kind }) => <TextLine>{kind.replaceAll("_", " ")}</TextLine> },
  { name: "State", width: "8.5rem", cell: ({ artifact_state }) => <StatusBadge status={artifact_state} /> },
  { name: "Signed", width: "5.5rem", priority: 3, cell: ({ signature }) => <Signed signature={signature} /> },
  {
    name: "Size",
    width: "5rem",
    priority: 2,
    align: "right",
    cell: ({ artifact_size, image }) => (image === null ? <Bytes count={artifact_size} /> : <span className="text-muted">—</span>),
  },
  {
    name: "Pushed by",
    width: "minmax(5rem, 1fr)",
    priority: 3,
    cell: ({ created_by }) => <TextLine>{created_by === null ? null : (created_by.name ?? created_by.type)}</TextLine>,
  },
  { name: "Pushed", width: "7rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
];

function Signed({ signature }: { signature: unknown }) {
  if (signature === null || signature === undefined) return <span className="text-muted">no</span>;
  return <Badge icon={ShieldCheck}>signed</Badge>;
}
