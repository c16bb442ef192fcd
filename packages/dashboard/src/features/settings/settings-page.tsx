import type { OwnOrg } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Card,
  Command,
  CopyText,
  KeyValue,
  NameInput,
  PageHeader,
  QueryState,
  Section,
  Text,
  TextInput,
  Time,
} from "../../ui/index.ts";
import { ServerSection } from "./server-section.tsx";
import { orgLine } from "./settings-lines.ts";
import { SigningSection } from "./signing-section.tsx";

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
      <QueryState query={org}>
        {({ data }) => (
          <Section title="Organization">{is_admin ? <OrgForm key={data.updated_at} org={data} /> : <OrgFacts org={data} />}</Section>
        )}
      </QueryState>
      <SigningSection />
      <ServerSection />
    </div>
  );
}

const daysWords = (days: number | null): string => (days === null ? "server default" : days === 1 ? "1 day" : `${days} days`);

const madeFacts = (id: string, created_at: string): [string, ReactNode][] => [
  ["Created", <Time key="made" at={created_at} exact />],
  [
    "ID",
    <CopyText key="id" label="ID">
      {id}
    </CopyText>,
  ],
];

function OrgFacts({ org: { id, name, settings, created_at } }: { org: OwnOrg }) {
  return (
    <Card>
      <KeyValue
        items={[
          ["Name", <Text key="name">{name}</Text>],
          ["Deployments expire after", daysWords(settings.deployment_expires_days)],
          ...madeFacts(id, created_at),
        ]}
      />
    </Card>
  );
}

function OrgForm({ org: { id, name: present, settings, created_at } }: { org: OwnOrg }) {
  const present_days = String(settings.deployment_expires_days ?? 0);
  const [name, setName] = useState(present);
  const [days, setDays] = useState(present_days);
  const changing = useAction("updateOrg", { quiet: true, done: "Saved" });
  const is_same = name === present && days === present_days;
  return (
    <Card>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          changing.mutate({ body: { name: name.trim(), settings: { deployment_expires_days: Number(days) } } });
        }}
      >
        <NameInput value={name} onChange={setName} />
        <TextInput
          label="Deployments expire after (days)"
          type="number"
          min={0}
          max={DAYS_MAX}
          required
          className="max-w-32"
          value={days}
          onChange={(event) => setDays(event.target.value)}
          hint="Robots that have not started by then are cancelled. 0: server default. Applies to deployments that start after this change."
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
