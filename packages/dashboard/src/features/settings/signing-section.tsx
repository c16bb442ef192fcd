import type { SigningKeys } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Badge, Card, Command, copyAsRf, CopyText, Dialog, Menu, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { signingLines } from "./settings-lines.ts";

/** The signing keys that robots trust. Changes must be signed with a private key, which never enters a browser. */
export function SigningSection() {
  const is_admin = useMay("admin");
  return (
    <Section title="Signed releases" actions={is_admin && <Menu label="Actions for signing" entries={[copyAsRf(signingLines.list)]} />}>
      {is_admin ? (
        <Read />
      ) : (
        <Card>
          <p className="text-muted">Only admins of the whole organization can view the keys. Each release shows whether it is signed.</p>
        </Card>
      )}
    </Section>
  );
}

function Read() {
  const keys = useQuery(query("getSigningKeys"));
  return (
    <QueryState query={keys} rows={2}>
      {({ data }) => (
        <Card>
          {data.keys.length === 0 ? <NoKeys /> : <Keys data={data} />}
          <p className="mt-3 text-xs text-muted">
            Adding or revoking a key, or requiring signatures, needs a signature by an existing key, on the machine that has its private
            key. Neither this page nor the server can sign.
          </p>
        </Card>
      )}
    </QueryState>
  );
}

function NoKeys() {
  return (
    <>
      <p className="mb-2">
        <Badge>not used</Badge> Robots install every release that a user with the operator role deploys. With signing keys, they install
        only signed releases. Start on the machine where releases are built:
      </p>
      <Command>{signingLines.begin}</Command>
    </>
  );
}

function Keys({ data: { keys, require_signature, serial } }: { data: SigningKeys }) {
  const [revoking, setRevoking] = useState<string>();
  return (
    <>
      <p className="mb-3 flex flex-wrap items-center gap-2">
        <Badge tone={require_signature ? "ok" : "warn"}>{require_signature ? "required" : "not required"}</Badge>
        {require_signature
          ? "Robots refuse releases that are not signed with one of these keys."
          : "Robots still install unsigned releases. To refuse them:"}
      </p>
      {!require_signature && <Command>{signingLines.require(true)}</Command>}
      <ul className="my-3 divide-y divide-line border-y border-line">
        {keys.map(({ id, name, added_at, revoked_at }) => (
          <li key={id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
            <Text className="font-medium">{name}</Text>
            <StatusBadge status={revoked_at === null ? "active" : "revoked"} />
            <CopyText label="Fingerprint">{id}</CopyText>
            <span className="ml-auto text-xs text-muted">
              {revoked_at === null ? (
                <>
                  added <Time at={added_at} />
                </>
              ) : (
                <>
                  revoked <Time at={revoked_at} />
                </>
              )}
            </span>
            {revoked_at === null && (
              <Menu
                label={`Actions for key ${name.slice(0, 80)}`}
                entries={[{ label: "Revoke…", danger: true, onSelect: () => setRevoking(id) }]}
              />
            )}
          </li>
        ))}
      </ul>
      <details>
        <summary className="text-muted">Add a key or stop requiring signatures (latest statement: {serial})</summary>
        <div className="mt-2 space-y-2">
          <Command>{signingLines.add}</Command>
          {require_signature && <Command>{signingLines.require(false)}</Command>}
        </div>
      </details>
      <Dialog
        open={revoking !== undefined}
        onClose={() => setRevoking(undefined)}
        title="Revoke key"
        description="Robots then refuse releases that this key signed: sign them again with another key. Run this command on the machine that has another key of the organization."
      >
        <Command>{signingLines.revoke(revoking ?? "")}</Command>
      </Dialog>
    </>
  );
}
