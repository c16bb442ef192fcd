import { useNavigate } from "@tanstack/react-router";
import type { Fleet } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, DeletePlaceDialog, Menu, RenameDialog } from "../../ui/index.ts";
import { fleetLines } from "./fleet-lines.ts";

type Shown = "rename" | "follow" | "delete";

/** What can be done with a fleet. */
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
        label={`More about ${fleet.name.slice(0, 80)}`}
        entries={[
          { label: "Its robots", onSelect: () => void navigate({ to: "/robots", search: { fleet_id: id } }) },
          { label: "Its logs", onSelect: () => void navigate({ to: "/fleets/$id/logs", params: { id } }) },
          may_change && { label: "Rename…", onSelect: () => setShown("rename") },
          may_change && { label: fleet.follow ? "Stop following…" : "Follow…", onSelect: () => setShown("follow") },
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
      title="Rename the fleet"
      name={name}
      onClose={onClose}
      sending={renaming}
      command={(typed) => fleetLines.rename(id, typed)}
      onRename={(to) => renaming.mutate({ params: { id }, body: { name: to } })}
    />
  );
}

/** Turns following on or off, once it was said what that means. */
export function FollowFleet({ fleet, onClose }: Parts) {
  const changing = useAction("updateFleet", { done: fleet.follow ? "It does not follow any more" : "It follows", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={fleet.follow ? "Stop following?" : "Follow the fleet?"}
      consequence={
        fleet.follow
          ? "Robots that join this fleet or come back late keep what they run, until somebody deploys to them. What is under way goes on."
          : "Robots that join this fleet, and those that come back after a deployment gave them up, are brought to the fleet's releases and config as soon as they connect: each by a deployment of its own, verified and rolled back like any other."
      }
      verb={fleet.follow ? "Stop following" : "Follow"}
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
          text: `${robot_count.toLocaleString()} ${robot_count === 1 ? "robot is" : "robots are"} in it. Move them to another fleet or decommission them; then it can be deleted.`,
          verb: "Show its robots",
          onShow: () => void navigate({ to: "/robots", search: { fleet_id: id } }),
        }
      }
      consequence="The fleet and its enrolment keys are gone. No robot is in it."
      command={fleetLines.delete(id)}
      busy={deleting.isPending}
      onDelete={() => deleting.mutate({ params: { id } })}
      onClose={onClose}
    />
  );
}
