import type { Robot } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { FormDialog, TextArea, TextInput } from "../../ui/index.ts";
import { FleetSelect } from "./bulk-move-dialog.tsx";
import { labelsText, readLabels } from "./labels.ts";
import { usePlaces } from "./place-names.ts";
import { robotLines } from "./robot-lines.ts";

interface Props {
  robot: Robot;
  onClose: () => void;
}

const asText = (error: Error | null): string | undefined => error?.message;

export function RenameDialog({ robot: { id, name }, onClose }: Props) {
  const [typed, setTyped] = useState(name);
  const update = useAction("updateRobot", { done: "Renamed", onSuccess: onClose, quiet: true });
  const trimmed = typed.trim();
  const can_save = trimmed !== "" && trimmed !== name;
  return (
    <FormDialog
      title="Rename"
      description="Links, configs and deployments use the ID and do not change."
      verb="Rename"
      locked={!can_save}
      sending={update}
      error={null}
      command={can_save ? robotLines.rename(id, trimmed) : undefined}
      onSubmit={() => update.mutate({ params: { id }, body: { name: trimmed } })}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        value={typed}
        maxLength={200}
        autoFocus
        error={asText(update.error)}
        onChange={(event) => {
          update.reset();
          setTyped(event.target.value);
        }}
      />
    </FormDialog>
  );
}

export function RobotLabelsDialog({ robot: { id, labels }, onClose }: Props) {
  const [typed, setTyped] = useState(() => labelsText(labels));
  const update = useAction("updateRobot", { done: "Labels changed", onSuccess: onClose, quiet: true });
  const read = readLabels(typed);
  const can_save = read.problem === undefined && labelsText(read.labels) !== labelsText(labels);
  return (
    <FormDialog
      title="Labels"
      verb="Save labels"
      locked={!can_save}
      sending={update}
      error={null}
      command={can_save ? robotLines.labels(id, read.labels) : undefined}
      onSubmit={() => update.mutate({ params: { id }, body: { labels: read.labels } })}
      onClose={onClose}
    >
      <TextArea
        label="Labels"
        rows={8}
        className="font-mono text-xs"
        value={typed}
        autoFocus
        placeholder={"zone=a\nmodel=cart-3"}
        hint="One key=value per line. Labels that are not listed are removed."
        error={read.problem ?? asText(update.error)}
        onChange={(event) => {
          update.reset();
          setTyped(event.target.value);
        }}
      />
    </FormDialog>
  );
}

export function MoveDialog({ robot: { id, fleet_id }, onClose }: Props) {
  const places = usePlaces();
  const [to, setTo] = useState("");
  const update = useAction("updateRobot", { done: "Moved", onSuccess: onClose, quiet: true });
  const can_save = to !== "" && to !== fleet_id;
  return (
    <FormDialog
      title="Move to another fleet"
      description="The robot moves to the site of that fleet. It receives the fleet's config with the next config deployment. It receives the fleet's release immediately if the fleet has auto-update enabled."
      verb="Move"
      locked={!can_save}
      sending={update}
      error={null}
      command={can_save ? robotLines.move(id, to) : undefined}
      onSubmit={() => update.mutate({ params: { id }, body: { fleet_id: to } })}
      onClose={onClose}
    >
      <FleetSelect
        places={{ ...places, fleets: places.fleets.filter((fleet) => fleet.id !== fleet_id) }}
        value={to}
        onChange={setTo}
        hint={asText(update.error)}
      />
    </FormDialog>
  );
}
