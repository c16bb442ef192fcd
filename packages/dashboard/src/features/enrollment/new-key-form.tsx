import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client.ts";
import { usePlaces } from "../../api/places.ts";
import { readAgain } from "../../api/read-again.ts";
import { randomId } from "../../api/random-id.ts";
import { useMayInWholeOrg } from "../../api/session.ts";
import { Button, Card, Checkbox, Command, Select, TextInput } from "../../ui/index.ts";
import { keyLines } from "./key-lines.ts";

/** Selected instead of an ID: create a new site or fleet. */
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
  /** Undefined if the user has no choice: only admins of the whole organization create trusted keys. */
  trusted: boolean | undefined;
}

/** The form for an enrollment key. Creates a missing site or fleet, too. */
export function NewKeyForm({ fleet_id, onMade }: { fleet_id: string | undefined; onMade: (key: NewEnrollmentKey) => void }) {
  const { sites, fleets } = usePlaces();
  const may_trust = useMayInWholeOrg("admin");
  const [choice, setChoice] = useState<Choice>(() => ({ ...firstChoice(fleets, sites, fleet_id), trusted: may_trust ? true : undefined }));
  const set = (change: Partial<Choice>): void => setChoice((before) => ({ ...before, ...change }));
  const making = useMutation({
    mutationFn: () => make(choice, set),
    onSuccess: onMade,
    onSettled: () => readAgain(),
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
            label="Robots"
            type="number"
            min={0}
            max={USES_MAX}
            required
            hint="Maximum robots that can enroll with this key. 0: unlimited."
            value={choice.max_uses}
            onChange={(event) => set({ max_uses: event.target.value })}
          />
          <Select
            label="Expires"
            options={LIFETIMES}
            value={choice.expires_in_hours}
            onChange={(event) => set({ expires_in_hours: event.target.value })}
          />
        </div>
        <TextInput
          label="Label"
          maxLength={200}
          placeholder="Optional"
          value={choice.label}
          onChange={(event) => set({ label: event.target.value })}
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
    hint="Robots that enroll with a trusted key receive secrets and registry logins immediately. Others wait for an admin's approval."
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
          options={[...options.map((one) => ({ value: one.id, label: one.name })), { value: NEW, label: `New ${noun}…` }]}
          onChange={(event) => onChoose(event.target.value)}
        />
      )}
      {value === NEW && (
        <TextInput
          label={options.length > 0 ? `Name of the new ${noun}` : label}
          required
          maxLength={200}
          value={name}
          onChange={(event) => onName(event.target.value)}
          hint={options.length > 0 ? undefined : "Will be created. You can rename it later."}
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
