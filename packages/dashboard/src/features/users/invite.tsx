import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client.ts";
import { readAgain } from "../../api/read-again.ts";
import { randomId } from "../../api/random-id.ts";
import { Checkbox, FormDialog, NameInput, TextInput } from "../../ui/index.ts";
import type { Grant } from "./grants.ts";
import { GrantFields } from "./grant-fields.tsx";
import { type MadeToken, TokenOnce } from "./token-once.tsx";
import { userLines } from "./user-lines.ts";

/** Creates a user and optionally their first token. */
export function Invite({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [grant, setGrant] = useState<Grant>({ role: "operator", scopes: [] });
  const [with_token, setWithToken] = useState(true);
  const [made, setMade] = useState<MadeToken>();
  const inviting = useMutation({
    mutationFn: async () => {
      const body = { email: email.trim(), name: name.trim(), ...grant };
      const { data: user } = await api.createUser({ body, idempotency_key: randomId() });
      if (!with_token) return undefined;
      const token = { label: "first token", user_id: user.id, ...grant };
      return { token: (await api.createToken({ body: token, idempotency_key: randomId() })).data, of: user.name };
    },
    onSettled: () => readAgain(),
    onSuccess: (token) => (token === undefined ? onClose() : setMade(token)),
  });
  if (made !== undefined) return <TokenOnce made={made} onClose={onClose} />;
  return (
    <FormDialog
      title="Invite user"
      verb="Invite"
      onClose={onClose}
      sending={inviting}
      command={userLines.create(email, name, grant)}
      onSubmit={() => inviting.mutate()}
    >
      <TextInput
        label="Email address"
        type="email"
        required
        autoFocus
        value={email}
        onChange={(event) => setEmail(event.target.value)}
        hint="Identifies the user. No email is sent."
      />
      <NameInput value={name} onChange={setName} />
      <GrantFields grant={grant} onChange={setGrant} />
      <div className="mb-3">
        <Checkbox label="Create a token now, to send over a secure channel" checked={with_token} onChange={setWithToken} />
      </div>
    </FormDialog>
  );
}
