import { Link } from "@tanstack/react-router";
import { History, LockKeyhole, Pencil, Undo2 } from "lucide-react";
import { createContext, use } from "react";
import { useNavigate } from "@tanstack/react-router";
import { useMay } from "../../api/session.ts";
import { Badge, type Column, copyAsRf, DataTable, EmptyState, Menu, Text } from "../../ui/index.ts";
import type { Scope } from "./configs-search.ts";
import { type EffectiveValue, valueLine } from "./effective.ts";
import { historyLine, unsetLine } from "./rf-lines.ts";
import { useScopeName } from "./scope-picker.tsx";

interface Acts {
  place: { scope: Scope; scope_id: string | undefined };
  onEdit: (value: EffectiveValue) => void;
  onUnset: (value: EffectiveValue) => void;
}
/** The actions of the rows. Passed by context, so that the columns stay constant. */
const ActsContext = createContext<Acts | undefined>(undefined);

const keyOf = ({ namespace, key }: EffectiveValue): string => JSON.stringify([namespace, key]);

/** Whether a value is set at this scope and not inherited from a wider one. */
export const isOwn = (value: EffectiveValue, { scope, scope_id }: Acts["place"]): boolean =>
  value.scope === scope && (scope === "org" || value.scope_id === scope_id);

const COLUMNS: readonly Column<EffectiveValue>[] = [
  {
    name: "Key",
    width: "minmax(7rem, 2fr)",
    cell: ({ key, config_id }) => (
      <Link to="/configs/$id" params={{ id: config_id }} className="block min-w-0 font-medium hover:underline">
        <Text line>{key}</Text>
      </Link>
    ),
  },
  { name: "Namespace", width: "minmax(5rem, 1fr)", priority: 2, cell: ({ namespace }) => <Text line>{namespace}</Text> },
  { name: "Value", width: "minmax(6rem, 3fr)", cell: (value) => <ValueCell value={value} /> },
  { name: "From", width: "minmax(4.5rem, 1.5fr)", cell: (value) => <Origin value={value} /> },
  { name: "Version", width: "4.5rem", priority: 3, align: "right", cell: ({ version }) => version },
  { name: "", width: "2rem", cell: (value) => <RowMenu value={value} /> },
];

function ValueCell({ value }: { value: EffectiveValue }) {
  if (value.secret)
    return (
      <Badge icon={<LockKeyhole size={12} aria-hidden />} tone="info">
        secret
      </Badge>
    );
  return (
    <Text line className="font-mono text-xs">
      {valueLine(value)}
    </Text>
  );
}

function Origin({ value }: { value: EffectiveValue }) {
  const acts = use(ActsContext);
  const name = useScopeName(value.scope, value.scope_id ?? undefined);
  if (acts !== undefined && isOwn(value, acts.place)) return <Badge tone="ok">set here</Badge>;
  return (
    <span className="flex min-w-0 items-center gap-1.5">
      <Badge>{value.scope}</Badge>
      {name !== undefined && (
        <span className="min-w-0 max-sm:hidden">
          <Text line>{name}</Text>
        </span>
      )}
    </span>
  );
}

function RowMenu({ value }: { value: EffectiveValue }) {
  const acts = use(ActsContext);
  const navigate = useNavigate();
  const may_set = useMay("operator");
  const is_admin = useMay("admin");
  if (acts === undefined) return null;
  const is_own = isOwn(value, acts.place);
  return (
    <Menu
      label={`Actions for ${value.key.slice(0, 80)}`}
      entries={[
        may_set &&
          (!value.secret || is_admin) && {
            label: is_own ? "Change…" : "Override…",
            icon: <Pencil size={14} aria-hidden />,
            onSelect: () => acts.onEdit(value),
          },
        {
          label: "History",
          icon: <History size={14} aria-hidden />,
          onSelect: () => void navigate({ to: "/configs/$id", params: { id: value.config_id } }),
        },
        copyAsRf(historyLine(value), "Copy rf history command"),
        is_own && is_admin && copyAsRf(unsetLine(value), "Copy rf unset command"),
        is_own && is_admin && { label: "Unset…", icon: <Undo2 size={14} aria-hidden />, danger: true, onSelect: () => acts.onUnset(value) },
      ]}
    />
  );
}

export function ValuesTable({
  values,
  is_any_set,
  place,
  onEdit,
  onUnset,
}: Acts & { values: readonly EffectiveValue[]; is_any_set: boolean }) {
  const navigate = useNavigate();
  const may_set = useMay("operator");
  const is_admin = useMay("admin");
  return (
    <ActsContext value={{ place, onEdit, onUnset }}>
      <DataTable
        label="Effective values"
        columns={COLUMNS}
        rows={values}
        rowKey={keyOf}
        onOpen={(value) => {
          if (may_set && (!value.secret || is_admin)) onEdit(value);
          else void navigate({ to: "/configs/$id", params: { id: value.config_id } });
        }}
        empty={
          is_any_set ? (
            <EmptyState title="No matching values">Change or clear the filters above.</EmptyState>
          ) : (
            <EmptyState title="No values yet" command="rf configs set speed_limit 1.5">
              A value set for the organization applies to all robots, unless a site, a fleet or a robot overrides it.
            </EmptyState>
          )
        }
      />
    </ActsContext>
  );
}
