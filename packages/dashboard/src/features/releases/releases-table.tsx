import type { Release } from "@roamfleet/protocol/routes";
import { Link, useNavigate } from "@tanstack/react-router";
import { ShieldCheck } from "lucide-react";
import type { ReactNode } from "react";
import { Badge, Bytes, type Column, DataTable, StatusBadge, Text, Time } from "../../ui/index.ts";

const COLUMNS: readonly Column<Release>[] = [
  {
    name: "Tag",
    width: "minmax(8rem, 3fr)",
    cell: ({ id, tag }) => (
      <Link to="/releases/$id" params={{ id }} className="block min-w-0 font-medium hover:underline">
        <Text line>{tag}</Text>
      </Link>
    ),
  },
  { name: "App", width: "minmax(4rem, 1fr)", priority: 2, cell: ({ app }) => <Text line>{app}</Text> },
  { name: "Kind", width: "minmax(6rem, 1fr)", priority: 3, cell: ({ kind }) => <Text line>{kind}</Text> },
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
    cell: ({ created_by }) => <Text line>{created_by === null ? null : (created_by.name ?? created_by.type)}</Text>,
  },
  { name: "Pushed", width: "7rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
];

function Signed({ signature }: { signature: unknown }) {
  if (signature === null || signature === undefined) return <span className="text-muted">no</span>;
  return <Badge icon={<ShieldCheck size={12} aria-hidden />}>signed</Badge>;
}

interface List {
  rows: readonly Release[];
  has_more: boolean;
  onEnd: () => void;
  onRange: (first: number, last: number) => void;
}

export function ReleasesTable({ list: { rows, has_more, onEnd, onRange }, empty }: { list: List; empty: ReactNode }) {
  const navigate = useNavigate();
  return (
    <DataTable
      label="Releases"
      columns={COLUMNS}
      rows={rows}
      rowKey={({ id }) => id}
      onOpen={({ id }) => void navigate({ to: "/releases/$id", params: { id } })}
      has_more={has_more}
      onEnd={onEnd}
      onRange={onRange}
      empty={empty}
    />
  );
}
