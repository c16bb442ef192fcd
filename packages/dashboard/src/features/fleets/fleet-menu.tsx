import { useNavigate } from "@tanstack/react-router";
import type { Fleet } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, DeletePlaceDialog, Menu, RenameDialog } from "../../ui/index.ts";
import { fleetLines } from "./fleet-lines.ts";

type Shown = "rename" | "follow" | "delete";

/** The actions on a fleet. */
export function FleetMenu({ fleet }: { fleet: Fleet }) {
  const may_change = useMay("operator");
  const may_delete = useMay("admin");
  const navigate = useNavigate();
  const [shown, setShown] = useState<Shown>();
  const close = (): void => setShown(undefined);
  const { id } = fleet;
  return (
    <>
      <Menu
        label={`Actions for ${fleet.name.slice(0, 80)}`}
        entries={[
          { label: "Show robots", onSelect: () => void navigate({ to: "/robots", search: { fleet_id: id } }) },
          { label: "Show logs", onSelect: () => void navigate({ to: "/fleets/$id/logs", params: { id } }) },
          may_change && { label: "Rename…", onSelect: () => setShown("rename") },
          may_change && { label: fleet.follow ? "Disable auto-update…" : "Enable auto-update…", onSelect: () => setShown("follow") },
          copyAsRf(fleetLines.show(id)),
          may_delete && { label: "Delete…", danger: true, onSelect: () => setShown("delete") },
        ]}
      />
      {shown === "rename" && <RenameFleet fleet={fleet} onClose={close} />}
      {shown === "follow" && <FollowFleet fleet={fleet} onClose={close} />}
      {shown === "delete" && <DeleteFleet fleet={fleet} onClose={close} />}
    </>
  );
}

interface Parts {
  fleet: Fleet;
  onClose: () => void;
}

function RenameFleet({ fleet: { id, name }, onClose }: Parts) {
  const renaming = useAction("updateFleet", { quiet: true, done: "Renamed", onSuccess: onClose });
  return (
    <RenameDialog
      title="Rename fleet"
      name={name}
      onClose={onClose}
      sending={renaming}
      command={(typed) => fleetLines.rename(id, typed)}
      onRename={(to) => renaming.mutate({ params: { id }, body: { name: to } })}
    />
  );
}

/** Enables or disables auto-update, after showing its effect. */
export function FollowFleet({ fleet, onClose }: Parts) {
  const changing = useAction("updateFleet", { done: fleet.follow ? "Auto-update disabled" : "Auto-update enabled", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={fleet.follow ? "Disable auto-update?" : "Enable auto-update?"}
      consequence={
        fleet.follow
          ? "Robots that join this fleet or reconnect late keep their releases and config until the next deployment. Updates in progress continue."
          : "Robots that join this fleet, and robots that reconnect after a deployment expired for them, receive the fleet's releases and config when they connect. Each gets a separate deployment, verified and rolled back like any other."
      }
      verb={fleet.follow ? "Disable auto-update" : "Enable auto-update"}
      command={fleetLines.follow(fleet.id, !fleet.follow)}
      busy={changing.isPending}
      onConfirm={() => changing.mutate({ params: { id: fleet.id }, body: { follow: !fleet.follow } })}
    />
  );
}

function DeleteFleet({ fleet, onClose }: Parts) {
  const navigate = useNavigate();
  const deleting = useAction("deleteFleet", {
    done: "Deleted",
    onSuccess: () => {
      onClose();
      void navigate({ to: "/fleets" });
    },
  });
  const { id, name, robot_count } = fleet;
  return (
    <DeletePlaceDialog
      kind="fleet"
      name={name}
      full={
        robot_count > 0 && {
          text: `${robot_count.toLocaleString()} ${robot_count === 1 ? "robot is" : "robots are"} in this fleet. Move them to another fleet or decommission them first.`,
          verb: "Show robots",
          onShow: () => void navigate({ to: "/robots", search: { fleet_id: id } }),
        }
      }
      consequence="Deletes the fleet and its enrollment keys. The fleet has no robots."
      command={fleetLines.delete(id)}
      busy={deleting.isPending}
      onDelete={() => deleting.mutate({ params: { id } })}
      onClose={onClose}
    />
  );
}
