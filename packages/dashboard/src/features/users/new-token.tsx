import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { FormDialog, Select, TextInput } from "../../ui/index.ts";
import type { Grant } from "./grants.ts";
import { GrantFields } from "./grant-fields.tsx";
import { type MadeToken, TokenOnce } from "./token-once.tsx";
import { tokenLines } from "./user-lines.ts";

const LIFETIMES = [
  { value: "0", label: "never" },
  { value: "24", label: "in a day" },
  { value: "168", label: "in a week" },
  { value: "720", label: "in 30 days" },
  { value: "2160", label: "in 90 days" },
  { value: "8760", label: "in a year" },
];

/** Creates a token of the organization or of a user. */
export function NewTokenDialog({ user_id: first, onClose }: { user_id?: string | undefined; onClose: () => void }) {
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const [user_id, setUser] = useState(first ?? "");
  const [label, setLabel] = useState("");
  const [grant, setGrant] = useState<Grant>({ role: "operator", scopes: [] });
  const [hours, setHours] = useState("0");
  const [made, setMade] = useState<MadeToken>();
  const of = users.find(({ id }) => id === user_id)?.name;
  const making = useAction("createToken", { quiet: true, onSuccess: ({ data }) => setMade({ token: data, of }) });
  if (made !== undefined) return <TokenOnce made={made} onClose={onClose} />;
  const body = { label: label.trim(), ...grant, user_id: user_id || undefined, expires_in_hours: Number(hours) };
  return (
    <FormDialog
      title="New token"
      verb="Create token"
      onClose={onClose}
      sending={making}
      command={tokenLines.create(body)}
      onSubmit={() => making.mutate({ body })}
    >
      <TextInput
        label="Label"
        required
        autoFocus
        maxLength={200}
        placeholder="ci, laptop, …"
        value={label}
        onChange={(event) => setLabel(event.target.value)}
      />
      <Select
        label="Owner"
        value={user_id}
        options={[
          { value: "", label: "organization (for a program)" },
          ...users.map(({ id, name, email }) => ({ value: id, label: `${name} (${email})` })),
        ]}
        hint={user_id === "" ? undefined : "The token never has more permissions than its user."}
        onChange={(event) => setUser(event.target.value)}
      />
      <GrantFields grant={grant} onChange={setGrant} />
      <Select label="Expires" value={hours} options={LIFETIMES} onChange={(event) => setHours(event.target.value)} />
    </FormDialog>
  );
}
