import { installCommand } from "@roamfleet/protocol/install-command";
import type { InstallParts, NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ComponentType, lazy, Suspense, useState } from "react";
import { api, randomId } from "../../api/client.ts";
import { query, usePlaces } from "../../api/queries.ts";
import { refetchQueries } from "../../api/query-client.ts";
import { useMay, useMayInWholeOrg } from "../../api/session.ts";
import {
  Button,
  combineLoaded,
  Card,
  Checkbox,
  Command,
  counted,
  EmptyState,
  LinkButton,
  namedOptions,
  PageHeader,
  QueryState,
  SecretOnce,
  Section,
  Select,
  StatusBadge,
  TextInput,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { useAuthority } from "./authority.ts";
import { installLine, isLoopback, keyLines, runLine } from "./enrollment-lines.ts";

const route = getRouteApi("/app/enrollment/new");

/** Creates an enrollment key and shows it once, with the commands to run on the robot and a list of the robots that enroll. */
export function NewKeyPage() {
  const { fleet_id } = route.useSearch();
  const may_change = useMay("operator");
  const queries = [useQuery(query("listSites")), useQuery(query("listFleets"))];
  const loading = combineLoaded(queries, queries.every(({ data }) => data !== undefined) || undefined);
  const [made, setMade] = useState<NewEnrollmentKey>();
  return (
    <div className="max-w-4xl">
      <PageHeader
        title={made === undefined ? "Enroll robots" : "New enrollment key"}
        label="Enroll robots"
        actions={made === undefined ? undefined : <LinkButton to="/enrollment">Done</LinkButton>}
      />
      {!may_change ? (
        <EmptyState title="You don't have access">Creating keys requires the operator role. Ask an admin of your organization.</EmptyState>
      ) : made !== undefined ? (
        <MadeKey made={made} />
      ) : (
        <QueryState query={loading} rows={6}>
          {() => <NewKeyForm fleet_id={fleet_id} onMade={setMade} />}
        </QueryState>
      )}
    </div>
  );
}

/** Value of the option that creates a new site or fleet. The value of any other option is an ID. */
const NEW = "new";
const LIFETIMES = [
  { value: "1", label: "in an hour" },
  { value: "24", label: "in a day" },
  { value: "168", label: "in a week" },
  { value: "720", label: "in 30 days" },
  { value: "0", label: "never" },
];
const USES_MAX = 10_000_000;

interface Choice {
  site_id: string;
  site_name: string;
  fleet_id: string;
  fleet_name: string;
  label: string;
  max_uses: string;
  expires_in_hours: string;
  /** Whether the key is trusted. Undefined if the user cannot choose: only admins of the whole organization can create trusted keys. */
  trusted: boolean | undefined;
}

/** The form for an enrollment key. Creates a missing site or fleet, too. */
function NewKeyForm({ fleet_id, onMade }: { fleet_id: string | undefined; onMade: (key: NewEnrollmentKey) => void }) {
  const { sites, fleets } = usePlaces();
  const may_trust = useMayInWholeOrg("admin");
  const [choice, setChoice] = useState<Choice>(() => ({ ...firstChoice(fleets, sites, fleet_id), trusted: may_trust ? true : undefined }));
  const set = (change: Partial<Choice>): void => setChoice((before) => ({ ...before, ...change }));
  const making = useMutation({
    mutationFn: () => make(choice, set),
    onSuccess: onMade,
    onSettled: () => refetchQueries(),
  });
  const here = fleets.filter(({ site_id }) => site_id === choice.site_id);
  return (
    <Card className="max-w-xl">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          making.mutate();
        }}
      >
        <div className="grid gap-x-4 sm:grid-cols-2">
          <PlaceField
            label="Site"
            value={choice.site_id}
            options={sites}
            name={choice.site_name}
            onChoose={(site_id) => set({ site_id, fleet_id: fleets.find((fleet) => fleet.site_id === site_id)?.id ?? NEW })}
            onName={(site_name) => set({ site_name })}
          />
          <PlaceField
            label="Fleet"
            value={choice.fleet_id}
            options={here}
            name={choice.fleet_name}
            onChoose={(id) => set({ fleet_id: id })}
            onName={(fleet_name) => set({ fleet_name })}
          />
          <TextInput
            label="Maximum robots"
            type="number"
            min={0}
            max={USES_MAX}
            required
            hint="0 means no limit."
            value={choice.max_uses}
            onValue={(max_uses) => set({ max_uses })}
          />
          <Select
            label="Expires"
            options={LIFETIMES}
            value={choice.expires_in_hours}
            onValue={(expires_in_hours) => set({ expires_in_hours })}
          />
        </div>
        <TextInput
          label="Label"
          maxLength={200}
          placeholder="Optional"
          value={choice.label}
          onValue={(label) => set({ label })}
          error={making.error?.message}
        />
        {choice.trusted !== undefined && <TrustedField trusted={choice.trusted} onChange={(trusted) => set({ trusted })} />}
        <Button look="primary" type="submit" busy={making.isPending} className="mb-4">
          Create key
        </Button>
        <Command>{lineOf(choice)}</Command>
      </form>
    </Card>
  );
}

const TrustedField = ({ trusted, onChange }: { trusted: boolean; onChange: (trusted: boolean) => void }) => (
  <Checkbox
    label="Trusted"
    hint="Robots that enroll with a trusted key receive secrets and registry logins immediately. After enrolling with any other key, each robot waits for an admin's approval."
    checked={trusted}
    onChange={onChange}
  />
);

interface PlaceFieldParts {
  label: "Site" | "Fleet";
  value: string;
  options: readonly { id: string; name: string }[];
  name: string;
  onChoose: (id: string) => void;
  onName: (name: string) => void;
}

function PlaceField({ label, value, options, name, onChoose, onName }: PlaceFieldParts) {
  const noun = label.toLowerCase();
  return (
    <div>
      {options.length > 0 && (
        <Select
          label={label}
          value={value}
          options={[...namedOptions(options), { value: NEW, label: `New ${noun}…` }]}
          onValue={onChoose}
        />
      )}
      {value === NEW && (
        <TextInput
          label={options.length > 0 ? `Name of the new ${noun}` : label}
          required
          maxLength={200}
          value={name}
          onValue={onName}
          hint={options.length > 0 ? undefined : "Created with the key. You can change the name later."}
        />
      )}
    </div>
  );
}

function firstChoice(
  fleets: readonly { id: string; site_id: string }[],
  sites: readonly { id: string }[],
  fleet_id: string | undefined,
): Omit<Choice, "trusted"> {
  const fleet = fleets.find(({ id }) => id === fleet_id) ?? fleets[0];
  return {
    site_id: fleet?.site_id ?? sites[0]?.id ?? NEW,
    site_name: sites.length === 0 ? "Site 1" : "",
    fleet_id: fleet?.id ?? NEW,
    fleet_name: fleets.length === 0 ? "Fleet 1" : "",
    label: "",
    max_uses: "10",
    expires_in_hours: "24",
  };
}

/** Creates a missing site and fleet, then the key. If a later step fails, what was created stays selected and is not created again. */
async function make(choice: Choice, set: (change: Partial<Choice>) => void): Promise<NewEnrollmentKey> {
  let { site_id, fleet_id } = choice;
  if (site_id === NEW) {
    const { data } = await api.createSite({ body: { name: choice.site_name.trim() }, idempotency_key: randomId() });
    site_id = data.id;
    set({ site_id });
  }
  if (fleet_id === NEW) {
    const { data } = await api.createFleet({ body: { name: choice.fleet_name.trim(), site_id }, idempotency_key: randomId() });
    fleet_id = data.id;
    set({ fleet_id });
  }
  const label = choice.label.trim();
  const body = {
    site_id,
    fleet_id,
    label: label === "" ? undefined : label,
    max_uses: Number(choice.max_uses),
    expires_in_hours: Number(choice.expires_in_hours),
    trusted: choice.trusted,
  };
  return (await api.createEnrollmentKey({ body, idempotency_key: randomId() })).data;
}

function lineOf(choice: Choice): string {
  const known = (id: string): string => (id === NEW ? "" : id);
  return keyLines.create({
    site_id: known(choice.site_id),
    fleet_id: known(choice.fleet_id),
    label: choice.label.trim(),
    max_uses: Number(choice.max_uses),
    expires_in_hours: Number(choice.expires_in_hours),
    trusted: choice.trusted,
  });
}

/** Shows nothing if its code cannot be loaded: an error or a reload of the page would lose the key, which is shown only once. */
const QrCode = lazy<ComponentType<{ text: string; label: string }>>(() =>
  import("./qr-code.tsx").then(({ QrCode: code }) => ({ default: code })).catch(() => ({ default: () => null })),
);

/** Shows a new key, once, with the commands to run on the robot and a list of the robots that enroll. */
function MadeKey({ made }: { made: NewEnrollmentKey }) {
  const authority = useAuthority();
  const hosted = useQuery(query("getHostedPackages"));
  if (made.key === null)
    return (
      <EmptyState title="The key could not be shown" actions={<LinkButton to="/enrollment">Go to enrollment keys</LinkButton>}>
        The key was created, but the response that contains it was lost, and a key is shown only once. Revoke this key and create another
        one.
      </EmptyState>
    );
  const { key } = made;
  return (
    <>
      <SecretOnce secret={key}>
        Copy the enrollment key now: it is shown only once. Anyone with this key can enroll robots into the fleet.
      </SecretOnce>
      <div className="mt-6">
        <QueryState query={authority}>
          {(ca_fingerprint) => (
            <Lines
              line={{ server: window.location.origin, key, ca_fingerprint: ca_fingerprint ?? undefined }}
              install={hosted.data?.data.install ?? undefined}
            />
          )}
        </QueryState>
      </div>
      <NewRobots made={made} />
    </>
  );
}

interface LinesParts {
  line: { server: string; key: string; ca_fingerprint: string | undefined };
  install: InstallParts | undefined;
}

function Lines({ line, install }: LinesParts) {
  const run = install === undefined ? runLine(line) : installCommand(install, line.server, line.key);
  return (
    <div className="grid gap-6 sm:grid-cols-[minmax(0,1fr)_14rem]">
      <div className="min-w-0">
        {install === undefined ? (
          <>
            <Section title="Run in a terminal on the robot">
              <Command>{run}</Command>
            </Section>
            <Section title="Install as a service on the robot">
              <Command>{installLine(line)}</Command>
            </Section>
          </>
        ) : (
          <>
            <Section title="Install the agent on the robot">
              <Command>{run}</Command>
              <p className="mt-1 text-xs text-muted">
                Debian and Ubuntu, 64-bit x86 and ARM. The robot is online after about a minute. Run the command again to upgrade.
              </p>
            </Section>
            <Section title="If the agent is already installed, run this command in a terminal">
              <Command>{runLine(line)}</Command>
            </Section>
          </>
        )}
        {isLoopback(window.location.hostname) && (
          <Card className="mb-6">
            <p>
              This page uses the address <code className="font-mono">{window.location.host}</code>, which works on this machine only. For
              robots on other machines, start the server with <code className="font-mono">--listen 0.0.0.0:7600 --tls auto</code> and open
              this page by the server's host name.
            </p>
          </Card>
        )}
      </div>
      <div className="max-sm:hidden">
        <Suspense fallback={<div className="aspect-square w-full max-w-56 rounded-md bg-active" />}>
          <QrCode text={run} label="The command as a QR code" />
        </Suspense>
        <p className="mt-1 max-w-56 text-xs text-muted">The same command as a QR code, to scan with a phone or with a robot's camera.</p>
      </div>
    </div>
  );
}

const SHOWN = 50;

/** The robots that joined the fleet since the key was created, updated live. */
function NewRobots({ made }: { made: NewEnrollmentKey }) {
  const { fleet_id, created_at } = made;
  const key = useQuery(query("getEnrollmentKey", { params: { id: made.id } })).data?.data ?? made;
  const robots = useQuery(query("listRobots", { query: { fleet_id, limit: SHOWN } }));
  return (
    <Section title="Enrolled robots" actions={<Uses uses={key.uses} max_uses={key.max_uses} />}>
      <QueryState query={robots} rows={2}>
        {({ items }) => {
          const joined = items.filter((robot) => Date.parse(robot.created_at) >= Date.parse(created_at));
          return joined.length === 0 ? (
            <Card>
              <p role="status" className="flex items-center gap-3 text-muted">
                <span aria-hidden className="size-2.5 animate-pulse rounded-full bg-info" />
                Waiting for robots… Each robot appears here as soon as it enrolls.
              </p>
            </Card>
          ) : (
            <>
              <Card className="!p-0">
                <ul className="divide-y divide-line" aria-live="polite" aria-label="Enrolled robots">
                  {joined.map(({ id, name, status, created_at: joined_at }) => (
                    <li key={id}>
                      <Link to="/robots/$id" params={{ id }} className="flex items-center gap-3 px-4 py-2 hover:bg-hover">
                        <TextLine className="flex-1 font-medium">{name}</TextLine>
                        <StatusBadge status={status} />
                        <span className="w-20 text-right text-xs text-muted">
                          <Time at={joined_at} />
                        </span>
                      </Link>
                    </li>
                  ))}
                </ul>
              </Card>
              <div className="mt-3 flex gap-2">
                <LinkButton to="/fleets/$id" params={{ id: fleet_id }}>
                  Go to fleet
                </LinkButton>
                <LinkButton to="/robots" search={{ fleet_id }}>
                  Show all robots
                </LinkButton>
              </div>
            </>
          );
        }}
      </QueryState>
    </Section>
  );
}

const Uses = ({ uses, max_uses }: { uses: number; max_uses: number }) => (
  <span className="text-muted tabular-nums">
    {max_uses === 0 ? `${counted(uses, "robot")}, no limit` : `${uses.toLocaleString()} of ${counted(max_uses, "robot")}`}
  </span>
);
