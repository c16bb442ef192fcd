import type { BrowserClient } from "@roamfleet/sdk/browser";
import type { ApprovedOrg, Org } from "@roamfleet/protocol/routes";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import {
  Button,
  type Column,
  ConfirmDialog,
  copyAsRf,
  EmptyState,
  FilterSelect,
  ListTable,
  Menu,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import { useAdminAction } from "./admin-client.ts";
import { adminLines } from "./admin-lines.ts";
import { BootstrapToken } from "./bootstrap-token.tsx";
import type { AdminSearch } from "./routes.ts";

const route = getRouteApi("/admin");
const PAGE_ROWS = 200;
const STATUSES = ["pending", "active", "suspended"].map((value) => ({ value, label: value === "pending" ? "requests" : value }));

export function Orgs({ client, status }: { client: BrowserClient; status: AdminSearch["status"] }) {
  // Beside the table: the row of who was let in may not be among those that are shown any more.
  const [approved, setApproved] = useState<ApprovedOrg>();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({
    queryKey: ["admin", "orgs", status ?? null],
    queryFn: ({ pageParam, signal }) => client.listOrgs({ query: { status, limit: PAGE_ROWS, cursor: pageParam }, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  });
  return (
    <>
      <div className="mb-3">
        <FilterSelect
          label="Status"
          value={status}
          options={STATUSES}
          onChange={(value) => void navigate({ search: { status: value as AdminSearch["status"] }, replace: true })}
        />
      </div>
      <ListTable
        label="Orgs"
        list={list}
        rowKey={({ id }) => id}
        columns={columns(client, setApproved)}
        empty={
          status === undefined ? (
            <EmptyState title="No org yet" command={adminLines.create("")}>
              Make one, or wait until somebody asks for one on the sign-in page.
            </EmptyState>
          ) : (
            <EmptyState title={status === "pending" ? "Nobody waits" : `No org is ${status}`} />
          )
        }
      />
      {approved !== undefined && <BootstrapToken org={approved} onClose={() => setApproved(undefined)} />}
    </>
  );
}

type Approved = (org: ApprovedOrg) => void;

const columns = (client: BrowserClient, onApproved: Approved): Column<Org>[] => [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ name }) => (
      <Text line className="font-medium">
        {name}
      </Text>
    ),
  },
  { name: "Asked by", width: "minmax(8rem,2fr)", priority: 2, cell: ({ email }) => <Text line>{email}</Text> },
  { name: "Status", width: "7rem", cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Since", width: "7rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "", width: "8.5rem", align: "right", cell: (org) => <OrgActions client={client} org={org} onApproved={onApproved} /> },
];

type Shown = "approve" | "reject" | "suspend" | "resume";

function OrgActions({ client, org, onApproved }: { client: BrowserClient; org: Org; onApproved: Approved }) {
  const [shown, setShown] = useState<Shown>();
  const close = (): void => setShown(undefined);
  const { id, name, status } = org;
  return (
    <span className="flex items-center justify-end gap-1">
      {status === "pending" && <Button onClick={() => setShown("approve")}>Approve</Button>}
      <Menu
        label={`More about ${name.slice(0, 80)}`}
        entries={[
          status === "pending" && { label: "Reject…", danger: true, onSelect: () => setShown("reject") },
          status === "active" && { label: "Suspend…", danger: true, onSelect: () => setShown("suspend") },
          status === "suspended" && { label: "Resume…", onSelect: () => setShown("resume") },
          copyAsRf(status === "pending" ? adminLines.approve(id) : status === "active" ? adminLines.suspend(id) : adminLines.resume(id)),
        ]}
      />
      {shown === "approve" && (
        <Approve
          client={client}
          org={org}
          onClose={close}
          onApproved={(answer) => {
            close();
            onApproved(answer);
          }}
        />
      )}
      {shown === "reject" && <Reject client={client} org={org} onClose={close} />}
      {shown === "suspend" && <Suspend client={client} org={org} onClose={close} />}
      {shown === "resume" && <Resume client={client} org={org} onClose={close} />}
    </span>
  );
}

interface Parts {
  client: BrowserClient;
  org: Org;
  onClose: () => void;
}

/** What was refused, in the dialog that asked for it. */
const Refused = ({ error }: { error: Error | null }) =>
  error !== null && (
    <p role="alert" className="text-left text-bad [overflow-wrap:anywhere] whitespace-normal">
      {error.message}
    </p>
  );

function Approve({ client, org: { id, name }, onClose, onApproved }: Parts & { onApproved: Approved }) {
  const approving = useAdminAction(async () => (await client.approveOrg({ params: { id } })).data, {
    onSuccess: onApproved,
  });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Approve ${name.slice(0, 80)}?`}
      consequence="The org becomes active. Its bootstrap token, which may do everything in it, is shown next and this once: have a safe way ready to hand it over."
      verb="Approve"
      command={adminLines.approve(id)}
      busy={approving.isPending}
      onConfirm={() => approving.mutate()}
    >
      <Refused error={approving.error} />
    </ConfirmDialog>
  );
}

function Reject({ client, org: { id, name }, onClose }: Parts) {
  const rejecting = useAdminAction(() => client.rejectOrg({ params: { id } }), { done: "Rejected", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Reject ${name.slice(0, 80)}?`}
      consequence="The request is deleted, and the name is free again. Nothing is sent to the address that asked for it."
      verb="Reject"
      danger
      command={adminLines.reject(id)}
      busy={rejecting.isPending}
      onConfirm={() => rejecting.mutate()}
    >
      <Refused error={rejecting.error} />
    </ConfirmDialog>
  );
}

function Suspend({ client, org: { id, name }, onClose }: Parts) {
  const suspending = useAdminAction(() => client.suspendOrg({ params: { id } }), { done: "Suspended", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Suspend ${name.slice(0, 80)}?`}
      consequence="Within two seconds its tokens are refused, its people signed out and its robots cut off. Robots go on with what they run. Scheduled deployments wait; those under way go on in time, with all robots counted as away. Nothing is deleted, and it can be resumed."
      verb="Suspend"
      danger
      type_to_confirm={name}
      command={adminLines.suspend(id)}
      busy={suspending.isPending}
      onConfirm={() => suspending.mutate()}
    >
      <Refused error={suspending.error} />
    </ConfirmDialog>
  );
}

function Resume({ client, org: { id, name }, onClose }: Parts) {
  const resuming = useAdminAction(() => client.resumeOrg({ params: { id } }), { done: "Resumed", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Resume ${name.slice(0, 80)}?`}
      consequence="Its tokens work again and its robots are let in as they try. Scheduled deployments whose time has passed start within 30 seconds."
      verb="Resume"
      command={adminLines.resume(id)}
      busy={resuming.isPending}
      onConfirm={() => resuming.mutate()}
    >
      <Refused error={resuming.error} />
    </ConfirmDialog>
  );
}
