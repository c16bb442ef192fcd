import type { Robot } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { Command, Dialog, Select } from "../../ui/index.ts";
import { bulkCommand } from "./bulk-change.ts";
import { BulkButtons, BulkReport, useBulk } from "./bulk-run.tsx";
import type { Places } from "./place-names.ts";

/** Moves many robots to another fleet and its site. */
export function BulkMoveDialog({ robots, places, onClose }: { robots: readonly Robot[]; places: Places; onClose: () => void }) {
  const [fleet_id, setFleet] = useState("");
  const bulk = useBulk(robots);
  const there = robots.filter((robot) => robot.fleet_id === fleet_id).length;
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Move ${robots.length.toLocaleString()} robots`}
      description="The robots receive the config of their new fleet with its next config deployment. They receive its release immediately if the fleet has auto-update enabled."
      actions={
        <BulkButtons
          verb="Move"
          can_start={fleet_id !== ""}
          status={bulk.status}
          onStart={() => bulk.start({ fleet_id })}
          onStop={bulk.stop}
          onClose={onClose}
        />
      }
    >
      {bulk.status === "idle" ? (
        <>
          <FleetSelect
            places={places}
            value={fleet_id}
            onChange={setFleet}
            hint={there === 0 ? undefined : `${there.toLocaleString()} of them are already in this fleet.`}
          />
          {fleet_id !== "" && (
            <Command>
              {bulkCommand(
                robots.map(({ id }) => id),
                { fleet_id },
              )}
            </Command>
          )}
        </>
      ) : (
        <BulkReport robots={robots} state={bulk} />
      )}
    </Dialog>
  );
}

/** A select of fleets with their sites. */
export function FleetSelect({
  places,
  value,
  onChange,
  hint,
}: {
  places: Places;
  value: string;
  onChange: (id: string) => void;
  hint?: string | undefined;
}) {
  return (
    <Select
      label="Target fleet"
      value={value}
      hint={hint}
      onChange={(event) => onChange(event.target.value)}
      options={[
        { value: "", label: "Select a fleet" },
        ...places.fleets.map(({ id, name, site_id }) => ({ value: id, label: `${name} · ${places.siteName(site_id) ?? site_id}` })),
      ]}
    />
  );
}
