import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { useAction } from "../../api/queries.ts";
import { Dialog, EmptyState, FormDialog, LinkButton, NameInput, Select, Switch } from "../../ui/index.ts";
import { fleetLines } from "./fleet-lines.ts";

export function NewFleet({ site_id, onClose }: { site_id?: string; onClose: () => void }) {
  const { sites, is_read } = usePlaces();
  if (is_read && sites.length === 0)
    return (
      <Dialog open onClose={onClose} title="New fleet">
        <EmptyState title="Create a site first" actions={<LinkButton to="/sites">Go to sites</LinkButton>}>
          Every fleet belongs to a site.
        </EmptyState>
      </Dialog>
    );
  return <NewFleetForm key={String(is_read)} site_id={site_id ?? sites[0]?.id ?? ""} onClose={onClose} />;
}

function NewFleetForm({ site_id: first, onClose }: { site_id: string; onClose: () => void }) {
  const { sites } = usePlaces();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [site_id, setSite] = useState(first);
  const [follow, setFollow] = useState(true);
  const making = useAction("createFleet", {
    quiet: true,
    onSuccess: ({ data: { id } }) => void navigate({ to: "/fleets/$id", params: { id } }),
  });
  return (
    <FormDialog
      title="New fleet"
      verb="Create fleet"
      onClose={onClose}
      sending={making}
      command={fleetLines.create(name, site_id)}
      onSubmit={() => making.mutate({ body: { name: name.trim(), site_id, follow } })}
    >
      <NameInput value={name} onChange={setName} autoFocus />
      <Select
        label="Site"
        value={site_id}
        options={sites.map((site) => ({ value: site.id, label: site.name }))}
        onChange={(event) => setSite(event.target.value)}
      />
      <Switch
        label="Auto-update new robots"
        hint="Robots that enroll, move here or reconnect late receive the fleet's releases and config."
        checked={follow}
        onChange={setFollow}
      />
    </FormDialog>
  );
}
