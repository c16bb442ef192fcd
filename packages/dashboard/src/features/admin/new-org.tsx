import type { BrowserClient } from "@roamfleet/sdk/browser";
import type { ApprovedOrg } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { randomId } from "../../api/random-id.ts";
import { Checkbox, FormDialog, NameInput, TextInput } from "../../ui/index.ts";
import { useAdminAction } from "./admin-client.ts";
import { adminLines } from "./admin-lines.ts";
import { BootstrapToken } from "./bootstrap-token.tsx";

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
      <NameInput value={name} onChange={setName} autoFocus />
      <TextInput
        label="Email of the owner"
        type="email"
        value={email}
        onChange={(event) => setEmail(event.target.value)}
        hint="Optional. No email is sent."
      />
      <div className="mb-3">
        <Checkbox label="Approve immediately and show the bootstrap token" checked={at_once} onChange={setAtOnce} />
      </div>
    </FormDialog>
  );
}
