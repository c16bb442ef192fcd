import type { EnrollmentKey } from "@roamfleet/protocol/routes";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { KeyRound } from "lucide-react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { KEY_STATUSES } from "../../search.ts";
import {
  type Column,
  copyAsRf,
  EmptyState,
  FilterSelect,
  LinkButton,
  ListTable,
  Menu,
  NameLink,
  NoMatch,
  PageHeader,
  StatusBadge,
  TextLine,
  Time,
  useFilters,
} from "../../ui/index.ts";
import { keyLines } from "./enrollment-lines.ts";

const route = getRouteApi("/app/enrollment");

/** The enrollment keys with their use and expiry. */
export function EnrollmentPage() {
  const { search, change, clear, is_filtered } = useFilters(route.useSearch());
  const may_change = useMay("operator");
  const places = usePlaces();
  const list = useLivePages("listEnrollmentKeys", { query: search });
  const make = (
    <LinkButton look="primary" to="/enrollment/new" icon={KeyRound}>
      Enroll robots
    </LinkButton>
  );
  return (
    <>
      <PageHeader
        title="Enrollment"
        label="Enrollment"
        meta="With an enrollment key, a robot joins a fleet automatically. Each robot needs the key only once."
        actions={
          <>
            {may_change && make}
            <Menu label="More" entries={[copyAsRf(keyLines.list)]} />
          </>
        }
      />
      <div className="mb-3 flex flex-wrap gap-2">
        <FilterSelect label="Status" value={search.status} options={KEY_STATUSES} onChange={(status) => change({ status })} />
      </div>
      <ListTable
        label="Enrollment keys"
        list={list}
        columns={columns(places)}
        empty={
          is_filtered ? (
            <NoMatch title={`No ${search.status} keys`} onClear={clear} />
          ) : (
            <EmptyState title="No enrollment keys yet" actions={may_change && make} command="rf keys new --site SITE --fleet FLEET">
              Create a key and run its command on the robot. The robot then appears automatically.
            </EmptyState>
          )
        }
      />
    </>
  );
}

/** The label of a key. On narrow screens, which have no fleet column, a key without a label shows its fleet. */
function Label({ of: { label, robot_id }, fleet }: { of: EnrollmentKey; fleet: string | undefined }) {
  const text = label ?? (robot_id === null ? null : "replacement");
  if (text !== null || fleet === undefined) return <TextLine>{text}</TextLine>;
  return (
    <>
      <span className="text-muted max-sm:hidden">—</span>
      <TextLine className="text-muted sm:hidden">{fleet}</TextLine>
    </>
  );
}

const columns = ({ site_names, fleet_names }: Places): Column<EnrollmentKey>[] => [
  {
    name: "Label",
    width: "minmax(4rem,2fr)",
    cell: (key) => <Label of={key} fleet={fleet_names.get(key.fleet_id)} />,
  },
  { name: "Status", width: "5.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
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
    name: "Fleet",
    width: "minmax(8rem,2fr)",
    priority: 2,
    cell: ({ fleet_id, robot_id }) =>
      robot_id === null ? (
        <NameLink to="/fleets/$id" params={{ id: fleet_id }} name={fleet_names.get(fleet_id) ?? fleet_id} />
      ) : (
        <Link to="/robots/$id" params={{ id: robot_id }} className="hover:underline">
          existing robot
        </Link>
      ),
  },
  {
    name: "Site",
    width: "minmax(6rem,1.8fr)",
    priority: 3,
    cell: ({ site_id }) => <TextLine>{site_names.get(site_id) ?? site_id}</TextLine>,
  },
  { name: "Expires", width: "7rem", priority: 2, cell: ({ expires_at }) => <Time at={expires_at} /> },
  {
    name: "Created by",
    width: "minmax(4rem,0.8fr)",
    priority: 3,
    cell: ({ created_by }) => <TextLine>{created_by?.name ?? created_by?.type}</TextLine>,
  },
  { name: "Created", width: "6rem", priority: 3, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "", width: "2rem", cell: (key) => <KeyMenu enrollment_key={key} /> },
];

/** The actions on an enrollment key. */
function KeyMenu({ enrollment_key: { id, label, status, fleet_id, uses } }: { enrollment_key: EnrollmentKey }) {
  const may_change = useMay("operator");
  const navigate = useNavigate();
  const stay =
    uses === 0
      ? "No robot has enrolled with this key."
      : uses === 1
        ? "The robot that enrolled with this key is not affected."
        : `The ${uses.toLocaleString()} robots that enrolled with this key are not affected.`;
  return (
    <Menu
      label={`Actions for key ${label?.slice(0, 80) ?? id}`}
      entries={[
        { label: "Show robots of the fleet", onSelect: () => void navigate({ to: "/robots", search: { fleet_id } }) },
        copyAsRf(keyLines.list),
        may_change &&
          status === "active" && {
            label: "Revoke…",
            danger: true,
            renderDialog: (close) => (
              <ConfirmAction
                route="revokeEnrollmentKey"
                args={{ params: { id } }}
                onClose={close}
                title="Revoke key?"
                consequence={`Robots can no longer enroll with this key. ${stay} This cannot be undone; create another key when you need one.`}
                verb="Revoke key"
                danger
                done="Key revoked"
                command={keyLines.revoke(id)}
              />
            ),
          },
      ]}
    />
  );
}
