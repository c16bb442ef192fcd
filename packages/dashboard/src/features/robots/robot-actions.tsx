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

/** The actions on a robot that the user's role allows. */
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
        label="Actions for this robot"
        entries={[
          may_change && { label: "Rename…", icon: <PencilLine {...ICON} />, onSelect: () => setShown("rename") },
          may_change && { label: "Labels…", icon: <Tags {...ICON} />, onSelect: () => setShown("labels") },
          may_change && { label: "Move to another fleet…", icon: <FolderInput {...ICON} />, onSelect: () => setShown("move") },
          may_change && { label: "Replace computer…", icon: <KeyRound {...ICON} />, onSelect: () => setShown("replace") },
          may_change && robot.held_at !== null && { label: "Unblock…", icon: <ShieldCheck {...ICON} />, onSelect: () => setShown("admit") },
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
  const admit = useAction("releaseHold", { done: "Robot unblocked", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Unblock robot?"
      consequence="The first machine that connects with this identity is accepted. If another machine still uses it, the robot is blocked again: switch the other machines off first, or replace the robot's computer."
      verb="Unblock"
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
      title={`Approve ${name}?`}
      consequence="The robot will receive secret config values and registry logins. First check that the computer is yours: anyone with access to it can read them."
      verb="Approve"
      busy={approve.isPending}
      command={robotLines.approve(id)}
      onConfirm={() => approve.mutate({ params: { id } })}
    />
  );
}

function DecommissionDialog({ robot: { id, name }, onClose }: { robot: Robot; onClose: () => void }) {
  const remove = useAction("deleteRobot", { done: "Robot decommissioned", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Decommission robot?"
      consequence="The server will refuse this robot's identity, and open deployments continue without it. Its apps keep running, but can no longer be changed from here. This cannot be undone: the machine would have to enroll again."
      verb="Decommission"
      danger
      type_to_confirm={name}
      busy={remove.isPending}
      command={robotLines.decommission(id)}
      onConfirm={() => remove.mutate({ params: { id } })}
    />
  );
}
