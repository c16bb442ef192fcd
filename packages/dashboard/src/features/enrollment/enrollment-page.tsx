import type { EnrollmentKey } from "@roamfleet/protocol/routes";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { KeyRound } from "lucide-react";
import { type Places, usePlaces } from "../../api/places.ts";
import { pagesQuery } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  type Column,
  copyAsRf,
  EmptyState,
  FilterSelect,
  LinkButton,
  ListTable,
  Menu,
  NoMatch,
  PageHeader,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import { KeyMenu } from "./key-menu.tsx";
import { keyLines } from "./key-lines.ts";

const route = getRouteApi("/app/enrollment");
const PAGE_ROWS = 200;
const STATUSES = ["active", "expired", "exhausted", "revoked"].map((value) => ({ value, label: value }));

/** The enrollment keys with their use and expiry. */
export function EnrollmentPage() {
  const { status } = route.useSearch();
  const navigate = route.useNavigate();
  const may_change = useMay("operator");
  const places = usePlaces();
  const list = useInfiniteQuery(pagesQuery("listEnrollmentKeys", { query: { status, limit: PAGE_ROWS } }));
  const make = (
    <LinkButton look="primary" to="/enrollment/new" icon={<KeyRound size={14} aria-hidden />}>
      Enroll robots
    </LinkButton>
  );
  return (
    <>
      <PageHeader
        title="Enrollment"
        label="Enrollment"
        meta="A robot joins a fleet automatically with an enrollment key. It uses the key once."
        actions={
          <>
            {may_change && make}
            <Menu label="More" entries={[copyAsRf(keyLines.list)]} />
          </>
        }
      />
      <div className="mb-3 flex flex-wrap gap-2">
        <FilterSelect
          label="Status"
          value={status}
          options={STATUSES}
          onChange={(value) => void navigate({ search: { status: value as typeof status }, replace: true })}
        />
      </div>
      <ListTable
        label="Enrollment keys"
        list={list}
        rowKey={({ id }) => id}
        columns={columns(places)}
        empty={
          status === undefined ? (
            <EmptyState title="No enrollment keys yet" actions={may_change && make} command="rf keys new --site SITE_ID --fleet FLEET_ID">
              Create a key and run its command on the robot. The robot then appears automatically.
            </EmptyState>
          ) : (
            <NoMatch title={`No ${status} keys`} onShowAll={() => void navigate({ search: {}, replace: true })} />
          )
        }
      />
    </>
  );
}

/** The label of a key. On narrow screens, which have no column for it, a key without label shows its fleet. */
function Label({ of: { label, robot_id }, fleet }: { of: EnrollmentKey; fleet: string | undefined }) {
  const text = label ?? (robot_id === null ? null : "replacement");
  if (text !== null || fleet === undefined) return <Text line>{text}</Text>;
  return (
    <>
      <span className="text-muted max-sm:hidden">—</span>
      <Text line className="text-muted sm:hidden">
        {fleet}
      </Text>
    </>
  );
}

const columns = ({ site_names, fleet_names }: Places): Column<EnrollmentKey>[] => [
  {
    name: "Label",
    width: "minmax(4rem,2fr)",
    cell: (key) => <Label of={key} fleet={fleet_names.get(key.fleet_id)} />,
  },
  { name: "Status", width: "6.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    name: "Used",
    width: "minmax(4.75rem,1fr)",
    align: "right",
    cell: ({ uses, max_uses }) =>
      max_uses === 0 ? (
        <>
          {uses.toLocaleString()}
          <span className="max-sm:hidden">, no limit</span>
        </>
      ) : (
        `${uses.toLocaleString()} of ${max_uses.toLocaleString()}`
      ),
  },
  {
    name: "Joins",
    width: "minmax(8rem,2fr)",
    priority: 2,
    cell: ({ fleet_id, robot_id }) =>
      robot_id === null ? (
        <Link to="/fleets/$id" params={{ id: fleet_id }} className="hover:underline">
          <Text line>{fleet_names.get(fleet_id) ?? fleet_id}</Text>
        </Link>
      ) : (
        <Link to="/robots/$id" params={{ id: robot_id }} className="hover:underline">
          replaces a computer
        </Link>
      ),
  },
  {
    name: "Site",
    width: "minmax(6rem,1.8fr)",
    priority: 3,
    cell: ({ site_id }) => <Text line>{site_names.get(site_id) ?? site_id}</Text>,
  },
  { name: "Expires", width: "7rem", priority: 2, cell: ({ expires_at }) => <Time at={expires_at} /> },
  {
    name: "Created by",
    width: "minmax(4rem,0.8fr)",
    priority: 3,
    cell: ({ created_by }) => <Text line>{created_by?.name ?? created_by?.type}</Text>,
  },
  { name: "Created", width: "6rem", priority: 3, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "", width: "2rem", cell: (key) => <KeyMenu enrollment_key={key} /> },
];
