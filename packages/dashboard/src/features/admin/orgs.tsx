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

const route = getRouteApi("/admin");
const PAGE_ROWS = 200;
const STATUSES = ["pending", "active", "suspended"].map((value) => ({ value, label: value === "pending" ? "requests" : value }));

export function Orgs({ client, status }: { client: BrowserClient; status: Org["status"] | undefined }) {
  // Kept outside the table: the filter may hide the row of an approved organization.
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
          onChange={(value) => void navigate({ search: { status: value as Org["status"] | undefined }, replace: true })}
        />
      </div>
      <ListTable
        label="Organizations"
        list={list}
        rowKey={({ id }) => id}
        columns={columns(client, setApproved)}
        empty={
          status === undefined ? (
            <EmptyState title="No organizations yet" command={adminLines.create("")}>
              Create an organization, or wait for a request from the sign-in page.
            </EmptyState>
          ) : (
            <EmptyState title={status === "pending" ? "No pending requests" : `No ${status} organizations`} />
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
  { name: "Requested by", width: "minmax(8rem,2fr)", priority: 2, cell: ({ email }) => <Text line>{email}</Text> },
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
        label={`Actions for ${name.slice(0, 80)}`}
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

/** Shows an error inside the dialog. */
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
      consequence="The organization becomes active. Next, its bootstrap token with full access is shown once: have a secure channel ready to send it."
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
      consequence="Deletes the request and frees the name. No email is sent to the requester."
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
      consequence="Within two seconds, its tokens are refused, its users signed out and its robots disconnected. Robots keep running their apps. Scheduled deployments wait; the time limits of running ones continue, with all robots counted as offline. Nothing is deleted, and you can resume the organization."
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
      consequence="Its tokens work again, and its robots can reconnect. Scheduled deployments whose time has passed start within 30 seconds."
      verb="Resume"
      command={adminLines.resume(id)}
      busy={resuming.isPending}
      onConfirm={() => resuming.mutate()}
    >
      <Refused error={resuming.error} />
    </ConfirmDialog>
  );
}
