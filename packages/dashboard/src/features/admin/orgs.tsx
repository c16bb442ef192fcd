import type { ApprovedOrg, Org } from "@roamfleet/protocol/routes";
import type { BrowserClient } from "@roamfleet/sdk/browser";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { randomId } from "../../api/client.ts";
import { signIn } from "../../api/session.ts";
import type { AdminSearch } from "../../search.ts";
import {
  Button,
  Checkbox,
  type Column,
  Command,
  ConfirmDialog,
  copyAsRf,
  Dialog,
  EmptyState,
  ErrorText,
  FilterSelect,
  FormDialog,
  ListTable,
  Menu,
  NameInput,
  notifyError,
  SecretOnce,
  shellLine,
  StatusBadge,
  TextInput,
  TextLine,
  Time,
  useFilters,
} from "../../ui/index.ts";
import { adminLines, useAdminAction, useAdminPages } from "./admin-client.ts";

const route = getRouteApi("/admin");
const STATUSES = ["pending", "active", "suspended"] as const;

export function Orgs({ client, status }: { client: BrowserClient; status: AdminSearch["status"] }) {
  // Store the approved organization outside the table: the filter may hide its row after the approval.
  const [approved, setApproved] = useState<ApprovedOrg>();
  const { change } = useFilters(route.useSearch());
  const list = useAdminPages(["orgs", status ?? null], (cursor, signal) =>
    client.listOrgs({ query: { status, limit: 200, cursor }, signal }),
  );
  return (
    <>
      <div className="mb-3">
        <FilterSelect label="Status" value={status} options={STATUSES} onChange={(value) => change({ status: value })} />
      </div>
      <ListTable
        label="Organizations"
        list={list}
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
    width: "minmax(0,2fr)",
    cell: ({ name }) => <TextLine className="font-medium">{name}</TextLine>,
  },
  { name: "Requested by", width: "minmax(8rem,2fr)", priority: 2, cell: ({ email }) => <TextLine>{email}</TextLine> },
  { name: "Status", width: "6rem", cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Created", width: "7rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "", width: "7.75rem", align: "right", cell: (org) => <OrgActions client={client} org={org} onApproved={onApproved} /> },
];

type Act = "approve" | "reject" | "suspend" | "resume";

function OrgActions({ client, org, onApproved }: { client: BrowserClient; org: Org; onApproved: Approved }) {
  const [is_approving, setApproving] = useState(false);
  const { id, name, status } = org;
  const renderDialog = (act: Act) => (close: () => void) => (
    <OrgDialog client={client} org={org} act={act} onClose={close} onApproved={onApproved} />
  );
  return (
    <span className="flex items-center justify-end gap-1">
      {status === "pending" && <Button onClick={() => setApproving(true)}>Approve</Button>}
      <Menu
        label={`Actions for ${name.slice(0, 80)}`}
        entries={[
          status === "pending" && { label: "Reject…", danger: true, renderDialog: renderDialog("reject") },
          status === "active" && { label: "Suspend…", danger: true, renderDialog: renderDialog("suspend") },
          status === "suspended" && { label: "Resume…", renderDialog: renderDialog("resume") },
          copyAsRf(status === "pending" ? adminLines.approve(id) : status === "active" ? adminLines.suspend(id) : adminLines.resume(id)),
        ]}
      />
      {is_approving && renderDialog("approve")(() => setApproving(false))}
    </span>
  );
}

const ACTS: Record<Act, { verb: string; done?: string; danger?: true; consequence: string }> = {
  approve: {
    verb: "Approve",
    consequence:
      "The organization becomes active, and its bootstrap token is shown once. The token has full access to the organization: have a secure channel ready to send it.",
  },
  reject: {
    verb: "Reject",
    done: "Rejected",
    danger: true,
    consequence: "Deletes the request and frees the name. No email is sent to the requester.",
  },
  suspend: {
    verb: "Suspend",
    done: "Suspended",
    danger: true,
    consequence:
      "Within two seconds, its tokens are refused, its users signed out and its robots disconnected. Robots keep running their apps. Scheduled deployments wait; running deployments keep their time limits and count all robots as offline. Nothing is deleted, and you can resume the organization.",
  },
  resume: {
    verb: "Resume",
    done: "Resumed",
    consequence:
      "The organization's tokens work again, and its robots can reconnect. Scheduled deployments whose time has passed start within 30 seconds.",
  },
};

interface OrgDialogProps {
  client: BrowserClient;
  org: Org;
  act: Act;
  onClose: () => void;
  onApproved: Approved;
}

function OrgDialog({ client, org: { id, name }, act, onClose, onApproved }: OrgDialogProps) {
  const { verb, done, danger = false, consequence } = ACTS[act];
  const acting = useAdminAction(
    async () => {
      const of = { params: { id } };
      if (act === "approve") return (await client.approveOrg(of)).data;
      await { reject: () => client.rejectOrg(of), suspend: () => client.suspendOrg(of), resume: () => client.resumeOrg(of) }[act]();
      return undefined;
    },
    {
      ...(done === undefined ? {} : { done }),
      onSuccess: (approved) => {
        onClose();
        if (approved !== undefined) onApproved(approved);
      },
    },
  );
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`${verb} ${name.slice(0, 80)}?`}
      consequence={consequence}
      verb={verb}
      danger={danger}
      {...(act === "suspend" ? { type_to_confirm: name } : {})}
      command={adminLines[act](id)}
      busy={acting.isPending}
      onConfirm={() => acting.mutate()}
    >
      <ErrorText error={acting.error} />
    </ConfirmDialog>
  );
}

/** Creates an organization and optionally approves it. */
export function NewOrg({ client, onClose }: { client: BrowserClient; onClose: () => void }) {
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [at_once, setAtOnce] = useState(true);
  const [approved, setApproved] = useState<ApprovedOrg>();
  const making = useAdminAction(
    async () => {
      const body = { name: name.trim(), ...(email.trim() === "" ? {} : { email: email.trim() }) };
      const { data } = await client.createOrg({ body, idempotency_key: randomId() });
      return at_once ? (await client.approveOrg({ params: { id: data.id } })).data : undefined;
    },
    { onSuccess: (org) => (org === undefined ? onClose() : setApproved(org)) },
  );
  if (approved !== undefined) return <BootstrapToken org={approved} onClose={onClose} />;
  return (
    <FormDialog
      title="New organization"
      verb={at_once ? "Create and approve" : "Create"}
      onClose={onClose}
      sending={making}
      command={at_once ? `${adminLines.create(name.trim())}\n${adminLines.approve("ID")}` : adminLines.create(name.trim())}
      onSubmit={() => making.mutate()}
    >
      <NameInput value={name} onValue={setName} autoFocus />
      <TextInput label="Email of the owner" type="email" value={email} onValue={setEmail} hint="Optional. No email is sent." />
      <div className="mb-3">
        <Checkbox label="Approve immediately and show the bootstrap token" checked={at_once} onChange={setAtOnce} />
      </div>
    </FormDialog>
  );
}

/** Shows the first token of an organization and the next steps. */
function BootstrapToken({ org: { name, token }, onClose }: { org: ApprovedOrg; onClose: () => void }) {
  const router = useRouter();
  const entering = useMutation({
    mutationFn: (secret: string) => signIn(secret),
    onSuccess: async () => {
      await router.invalidate();
      await router.navigate({ to: "/" });
    },
    onError: notifyError,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`${name.slice(0, 80)} is active`}
      actions={
        <>
          <Button onClick={onClose}>Done</Button>
          {token !== null && (
            <Button look="primary" busy={entering.isPending} onClick={() => entering.mutate(token)}>
              Sign in with this token
            </Button>
          )}
        </>
      }
    >
      {token === null ? (
        <p>
          The organization was approved, but the response with its token was lost, and the token is shown only once. Suspend the
          organization and create another one.
        </p>
      ) : (
        <div className="text-left">
          <SecretOnce secret={token}>
            Copy the bootstrap token now: it is shown only once. It has full access to this organization.
          </SecretOnce>
          <ol className="mt-4 list-decimal space-y-2 pl-5">
            <li>
              Send the token to the organization's owner over a secure channel, or sign in with it yourself, here or in a terminal:
              <div className="mt-1">
                <Command>{shellLine("rf", "login", "--base-url", window.location.origin, "--token", token)}</Command>
              </div>
            </li>
            <li>Enroll the first robot.</li>
            <li>Invite users, each with a separate token. Then revoke this token.</li>
          </ol>
        </div>
      )}
    </Dialog>
  );
}
