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

/** Lets somebody in, and makes the token that they sign in with. */
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
      title="Invite somebody"
      verb="Invite"
      onClose={onClose}
      sending={inviting}
      command={userLines.create(email, name, grant)}
      onSubmit={() => inviting.mutate()}
    >
      <TextInput
        label="E-mail address"
        type="email"
        required
        autoFocus
        value={email}
        onChange={(event) => setEmail(event.target.value)}
        hint="Who they are. Nothing is sent there."
      />
      <NameInput value={name} onChange={setName} />
      <GrantFields grant={grant} onChange={setGrant} />
      <div className="mb-3">
        <Checkbox label="Make a token for them now, to give them by a safe way" checked={with_token} onChange={setWithToken} />
      </div>
    </FormDialog>
  );
}
