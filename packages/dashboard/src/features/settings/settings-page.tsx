import type { OwnOrg, SigningKeys } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { shellLine } from "../../ui/format.ts";
import {
  Badge,
  Button,
  Card,
  Command,
  copyAsRf,
  CopyText,
  counted,
  Dialog,
  KeyValue,
  Menu,
  NameInput,
  PageHeader,
  QueryState,
  Section,
  StatusBadge,
  Text,
  TextInput,
  Time,
} from "../../ui/index.ts";
import { useAuthority } from "../enrollment/authority.ts";

const DAYS_MAX = 365;

/** The settings of the organization. Users without permission can view them. */
export function SettingsPage() {
  const org = useQuery(query("getOrg"));
  const is_admin = useMay("admin");
  return (
    <div className="max-w-3xl">
      <PageHeader
        title="Settings"
        label="Settings"
        meta={is_admin ? undefined : "Only admins of the whole organization can change settings."}
      />
      <Section title="Organization">
        <QueryState query={org}>
          {({ data }) => (is_admin ? <OrgForm key={data.updated_at} org={data} /> : <OrgFacts org={data} />)}
        </QueryState>
      </Section>
      <SigningSection />
      <ServerSection />
    </div>
  );
}

const daysWords = (days: number | null): string => (days === null ? "server default" : counted(days, "day"));

const madeFacts = (id: string, created_at: string) => ({
  Created: <Time at={created_at} exact />,
  ID: <CopyText label="ID" text={id} />,
});

function OrgFacts({ org: { id, name, settings, created_at } }: { org: OwnOrg }) {
  return (
    <Card>
      <KeyValue
        items={{
          Name: <Text>{name}</Text>,
          "Deployments expire after": daysWords(settings.deployment_expires_days),
          ...madeFacts(id, created_at),
        }}
      />
    </Card>
  );
}

function OrgForm({ org: { id, name: present, settings, created_at } }: { org: OwnOrg }) {
  const present_days = String(settings.deployment_expires_days ?? 0);
  const [name, setName] = useState(present);
  const [days, setDays] = useState(present_days);
  const changing = useAction("updateOrg", { quiet: true, done: "Settings saved" });
  const is_same = name === present && days === present_days;
  return (
    <Card>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          changing.mutate({ body: { name: name.trim(), settings: { deployment_expires_days: Number(days) } } });
        }}
      >
        <NameInput value={name} onValue={setName} />
        <TextInput
          label="Deployments expire after (days)"
          type="number"
          min={0}
          max={DAYS_MAX}
          required
          className="max-w-32"
          value={days}
          onValue={setDays}
          hint="Robots that have not started to update within this time are skipped. 0: the server's default. Applies to deployments that start after this change."
          error={changing.error?.message}
        />
        <Button className="mb-4" look="primary" type="submit" busy={changing.isPending} disabled={is_same}>
          Save
        </Button>
      </form>
      <Command>{orgLine(name, Number(days))}</Command>
      <div className="mt-4">
        <KeyValue items={madeFacts(id, created_at)} />
      </div>
    </Card>
  );
}

/** The address and certificate authority of the server, with links to the API documentation. */
function ServerSection() {
  const authority = useAuthority().data ?? null;
  const { origin } = window.location;
  return (
    <Section title="Server and API">
      <Card>
        <KeyValue
          items={{
            Address: <CopyText label="Address" text={origin} />,
            "Certificate authority": authority !== null && <CopyText label="fingerprint of the certificate authority" text={authority} />,
            API: (
              <span className="flex flex-wrap gap-x-3">
                <a className="inline-block min-h-[24px] leading-[24px] text-accent underline" href="/docs">
                  API reference
                </a>
                <a className="inline-block min-h-[24px] leading-[24px] text-accent underline" href="/openapi.json">
                  OpenAPI document
                </a>
              </span>
            ),
          }}
        />
      </Card>
    </Section>
  );
}

/** The signing keys that robots trust. Changes must be signed with a private key, which never enters a browser. */
function SigningSection() {
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
          {data.keys.length > 0 && (
            <p className="mt-3 text-xs text-muted">
              To add or revoke a key, or to require signatures, sign the change with an existing key on the machine that has its private
              key. Neither this page nor the server can sign.
            </p>
          )}
        </Card>
      )}
    </QueryState>
  );
}

function NoKeys() {
  return (
    <>
      <p className="mb-2">
        <Badge>no keys</Badge> Robots install every release that a user with the operator role deploys. With signing keys, you can require
        that robots install only signed releases. Start on the machine where releases are built:
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
            <CopyText label="Fingerprint" text={id} />
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
        <summary className="text-muted">
          {require_signature ? "Add a key or stop requiring signatures" : "Add a key"} (latest signed change: {serial})
        </summary>
        <div className="mt-2 space-y-2">
          <Command>{signingLines.add}</Command>
          {require_signature && <Command>{signingLines.require(false)}</Command>}
        </div>
      </details>
      <Dialog
        open={revoking !== undefined}
        onClose={() => setRevoking(undefined)}
        title="Revoke key"
        description="Robots then refuse releases that are signed with this key: sign those releases again with another key. To revoke this key, run the command on the machine that has another private key of the organization."
      >
        <Command>{signingLines.revoke(revoking ?? "")}</Command>
      </Dialog>
    </>
  );
}

/** Returns the `rf` command that sets the organization's settings. */
const orgLine = (name: string, deployment_expires_days: number): string =>
  shellLine("rf", "org", "set", "--name", name || "NAME", "--deployment-expires-days", String(deployment_expires_days));

/** The `rf` commands for signing keys. Commands that change keys require a private key, which the page does not have. */
const signingLines = {
  begin: "rf signing-keys new release-key.pem\nrf signing-keys add release-key.pem.pub --sign release-key.pem",
  list: "rf signing-keys list",
  add: "rf signing-keys new new-key.pem\nrf signing-keys add new-key.pem.pub --sign release-key.pem",
  require: (on: boolean) => shellLine("rf", "signing-keys", "require", on ? "on" : "off", "--sign", "release-key.pem"),
  revoke: (id: string) => shellLine("rf", "signing-keys", "revoke", id, "--sign", "release-key.pem"),
};
