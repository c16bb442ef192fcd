import type { SigningKeys } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Badge, Card, Command, copyAsRf, CopyText, Dialog, Menu, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { signingLines } from "./settings-lines.ts";

/** Whose signatures robots take. It is changed by what a private key signed, and those never come into a browser. */
export function SigningSection() {
  const is_admin = useMay("admin");
  return (
    <Section title="Signed releases" actions={is_admin && <Menu label="More about signing" entries={[copyAsRf(signingLines.list)]} />}>
      {is_admin ? (
        <Read />
      ) : (
        <Card>
          <p className="text-muted">The keys are for admins of the whole org to see. Each release shows whether it is signed.</p>
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
            A key is added, revoked or required by a statement that a present key signs, on the machine where its private half is. This page
            cannot sign, and neither can the server.
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
        <Badge>not used</Badge> Robots take every release that somebody with the role operator deploys. With keys, only what their owner
        signed. Begin where releases are made:
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
          ? "Robots refuse every release that none of these keys signed."
          : "Releases without a signature are still taken. To refuse them:"}
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
                label={`More about key ${name.slice(0, 80)}`}
                entries={[{ label: "Revoke…", danger: true, onSelect: () => setRevoking(id) }]}
              />
            )}
          </li>
        ))}
      </ul>
      <details>
        <summary className="text-muted">Add a key, or require no signature any more (statement {serial} is the latest)</summary>
        <div className="mt-2 space-y-2">
          <Command>{signingLines.add}</Command>
          {require_signature && <Command>{signingLines.require(false)}</Command>}
        </div>
      </details>
      <Dialog
        open={revoking !== undefined}
        onClose={() => setRevoking(undefined)}
        title="Revoke the key"
        description="Releases that it signed are refused from then on: sign them again with another key. Another key of the org signs this, on the machine where it is."
      >
        <Command>{signingLines.revoke(revoking ?? "")}</Command>
      </Dialog>
    </>
  );
}
