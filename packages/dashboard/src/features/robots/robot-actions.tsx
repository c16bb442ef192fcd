import type { Robot } from "@roamfleet/protocol/routes";
import { BadgeCheck, FolderInput, KeyRound, PencilLine, Rocket, ShieldCheck, Tags, Trash2 } from "lucide-react";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, LinkButton, Menu } from "../../ui/index.ts";
import { MoveDialog, RenameDialog, RobotLabelsDialog } from "./change-dialogs.tsx";
import { ReplaceDialog } from "./replace-dialog.tsx";
import { robotLines } from "./robot-lines.ts";

const ICON = { size: 14, "aria-hidden": true } as const;
type Shown = "rename" | "labels" | "move" | "replace" | "admit" | "approve" | "decommission";

/** What can be done with a robot, as far as the role goes. */
export function RobotActions({ robot }: { robot: Robot }) {
  const [shown, setShown] = useState<Shown>();
  const is_there = robot.status !== "decommissioned";
  const may_change = useMay("operator") && is_there;
  const is_admin = useMay("admin");
  const may_remove = is_admin && is_there;
  return (
    <>
      {may_change && (
        <LinkButton look="primary" icon={<Rocket {...ICON} />} to="/deployments/new" search={{ robot_id: robot.id } as never}>
          Deploy
        </LinkButton>
      )}
      <Menu
        label="More for this robot"
        entries={[
          may_change && { label: "Rename…", icon: <PencilLine {...ICON} />, onSelect: () => setShown("rename") },
          may_change && { label: "Labels…", icon: <Tags {...ICON} />, onSelect: () => setShown("labels") },
          may_change && { label: "Move to another fleet…", icon: <FolderInput {...ICON} />, onSelect: () => setShown("move") },
          may_change && { label: "Replace its computer…", icon: <KeyRound {...ICON} />, onSelect: () => setShown("replace") },
          may_change &&
            robot.held_at !== null && { label: "Let in again…", icon: <ShieldCheck {...ICON} />, onSelect: () => setShown("admit") },
          may_remove &&
            robot.approval === "pending" && { label: "Approve…", icon: <BadgeCheck {...ICON} />, onSelect: () => setShown("approve") },
          copyAsRf(robotLines.show(robot.id)),
          may_remove && { label: "Decommission…", icon: <Trash2 {...ICON} />, danger: true, onSelect: () => setShown("decommission") },
        ]}
      />
      {shown !== undefined && <ActionDialog robot={robot} shown={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

function ActionDialog({ shown, ...rest }: { shown: Shown; robot: Robot; onClose: () => void }) {
  switch (shown) {
    case "rename":
      return <RenameDialog {...rest} />;
    case "labels":
      return <RobotLabelsDialog {...rest} />;
    case "move":
      return <MoveDialog {...rest} />;
    case "replace":
      return <ReplaceDialog {...rest} />;
    case "admit":
      return <AdmitDialog {...rest} />;
    case "approve":
      return <ApproveDialog {...rest} />;
    case "decommission":
      return <DecommissionDialog {...rest} />;
  }
}

function AdmitDialog({ robot: { id }, onClose }: { robot: Robot; onClose: () => void }) {
  const admit = useAction("releaseHold", { done: "The robot is let in again", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Let this robot in again"
      consequence="The first machine that connects with its identity is let in. If another one still runs with it, the robot is held again: switch the others off first, or replace its computer."
      verb="Let in"
      busy={admit.isPending}
      command={robotLines.admit(id)}
      onConfirm={() => admit.mutate({ params: { id } })}
    />
  );
}

function ApproveDialog({ robot: { id, name }, onClose }: { robot: Robot; onClose: () => void }) {
  const approve = useAction("approveRobot", { done: "Robot approved", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Approve ${name}`}
      consequence="The robot gets secret config values and registry logins from now on. Check first that the computer is yours: its operator can read them."
      verb="Approve"
      busy={approve.isPending}
      command={robotLines.approve(id)}
      onConfirm={() => approve.mutate({ params: { id } })}
    />
  );
}

function DecommissionDialog({ robot: { id, name }, onClose }: { robot: Robot; onClose: () => void }) {
  const remove = useAction("deleteRobot", { done: "The robot is decommissioned", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Decommission this robot"
      consequence="Its identity is refused from now on, and open deployments go on without it. What runs on it goes on running; nobody here can change it any more. This cannot be taken back: the machine would have to be enrolled anew."
      verb="Decommission"
      danger
      type_to_confirm={name}
      busy={remove.isPending}
      command={robotLines.decommission(id)}
      onConfirm={() => remove.mutate({ params: { id } })}
    />
  );
}
