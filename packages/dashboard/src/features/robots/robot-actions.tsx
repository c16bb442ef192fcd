import type { Robot } from "@roamfleet/protocol/routes";
import type { Rest } from "@roamfleet/sdk/browser";
import { BadgeCheck, FolderInput, KeyRound, PencilLine, Rocket, ShieldCheck, Tags, Trash2 } from "lucide-react";
import { type ComponentProps, useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Command,
  copyAsRf,
  Dialog,
  FormDialog,
  LinkButton,
  Menu,
  NameInput,
  SecretOnce,
  shellLine,
  TextArea,
  Time,
} from "../../ui/index.ts";
import { FleetSelect } from "./bulk.tsx";
import { labelsText, readLabels, robotLines } from "./robot-text.ts";

/** The actions on a robot that the user's role allows. */
export function RobotActions({ robot }: { robot: Robot }) {
  const { id } = robot;
  const is_there = robot.status !== "decommissioned";
  const may_change = useMay("operator") && is_there;
  const may_remove = useMay("admin") && is_there;
  return (
    <>
      {may_change && (
        <LinkButton look="primary" icon={Rocket} to="/deployments/new" search={{ robot_id: id } as never}>
          Deploy
        </LinkButton>
      )}
      <Menu
        label="Actions for this robot"
        entries={[
          may_change && { label: "Rename…", icon: PencilLine, renderDialog: (close) => <RenameRobot robot={robot} onClose={close} /> },
          may_change && { label: "Change labels…", icon: Tags, renderDialog: (close) => <RobotLabels robot={robot} onClose={close} /> },
          may_change && {
            label: "Move to another fleet…",
            icon: FolderInput,
            renderDialog: (close) => <MoveRobot robot={robot} onClose={close} />,
          },
          may_change && {
            label: "Replace computer…",
            icon: KeyRound,
            renderDialog: (close) => <ReplaceComputer robot={robot} onClose={close} />,
          },
          may_change &&
            robot.held_at !== null && {
              label: "Unblock…",
              icon: ShieldCheck,
              renderDialog: (close) => <Unblock robot={robot} onClose={close} />,
            },
          may_remove &&
            robot.approval === "pending" && {
              label: "Approve…",
              icon: BadgeCheck,
              renderDialog: (close) => <Approve robot={robot} onClose={close} />,
            },
          copyAsRf(robotLines.show(id)),
          may_remove && {
            label: "Decommission…",
            icon: Trash2,
            danger: true,
            renderDialog: (close) => <Decommission robot={robot} onClose={close} />,
          },
        ]}
      />
    </>
  );
}

interface Props {
  robot: Robot;
  onClose: () => void;
}

const Unblock = ({ robot: { id }, onClose }: Props) => (
  <ConfirmAction
    route="releaseHold"
    args={{ params: { id } }}
    onClose={onClose}
    title="Unblock robot?"
    consequence="The first machine that connects with this identity is accepted. If another machine still uses the identity, the robot is quarantined again: switch the other machines off first, or replace the robot's computer."
    verb="Unblock"
    done="Robot unblocked"
    command={robotLines.admit(id)}
  />
);

const Approve = ({ robot: { id, name }, onClose }: Props) => (
  <ConfirmAction
    route="approveRobot"
    args={{ params: { id } }}
    onClose={onClose}
    title={`Approve ${name}?`}
    consequence="The robot will receive secret config values and registry logins. First check that the computer is yours: anyone with access to it can read these secrets."
    verb="Approve"
    done="Robot approved"
    command={robotLines.approve(id)}
  />
);

const Decommission = ({ robot: { id, name }, onClose }: Props) => (
  <ConfirmAction
    route="deleteRobot"
    args={{ params: { id } }}
    onClose={onClose}
    title="Decommission robot?"
    consequence="The server will refuse this robot's identity, and open deployments continue without the robot. The robot's apps keep running, but can no longer be changed from here. This cannot be undone: the machine would have to enroll again."
    verb="Decommission"
    danger
    type_to_confirm={name}
    done="Robot decommissioned"
    command={robotLines.decommission(id)}
  />
);

interface UpdateRobotProps
  extends Props, Pick<ComponentProps<typeof FormDialog>, "title" | "description" | "verb" | "command" | "children"> {
  done: string;
  /** The fields to change; undefined while the user has changed nothing. */
  change: Rest<"updateRobot">[0]["body"] | undefined;
}

/** A form that changes a robot. */
function UpdateRobot({ robot: { id }, done, change, onClose, ...form }: UpdateRobotProps) {
  const update = useAction("updateRobot", { done, onSuccess: onClose, quiet: true });
  return (
    <FormDialog
      locked={change === undefined}
      sending={update}
      onSubmit={() => change !== undefined && update.mutate({ params: { id }, body: change })}
      onClose={onClose}
      {...form}
    />
  );
}

function RenameRobot({ robot, onClose }: Props) {
  const [typed, setTyped] = useState(robot.name);
  const name = typed.trim();
  const can_save = name !== "" && name !== robot.name;
  return (
    <UpdateRobot
      robot={robot}
      onClose={onClose}
      title="Rename robot"
      description="Links, configs and deployments use the robot's ID and do not change."
      verb="Rename"
      done="Renamed"
      change={can_save ? { name } : undefined}
      command={can_save ? robotLines.rename(robot.id, name) : undefined}
    >
      <NameInput value={typed} onValue={setTyped} autoFocus />
    </UpdateRobot>
  );
}

function RobotLabels({ robot, onClose }: Props) {
  const [typed, setTyped] = useState(() => labelsText(robot.labels));
  const { labels, problem } = readLabels(typed);
  const can_save = problem === undefined && labelsText(labels) !== labelsText(robot.labels);
  return (
    <UpdateRobot
      robot={robot}
      onClose={onClose}
      title="Change labels"
      verb="Save labels"
      done="Labels changed"
      change={can_save ? { labels } : undefined}
      command={can_save ? robotLines.labels(robot.id, labels) : undefined}
    >
      <TextArea
        label="Labels"
        rows={8}
        className="font-mono text-xs"
        value={typed}
        autoFocus
        placeholder={"zone=a\nmodel=cart-3"}
        hint="One key=value per line. Labels that are not listed are removed."
        error={problem}
        onValue={setTyped}
      />
    </UpdateRobot>
  );
}

function MoveRobot({ robot, onClose }: Props) {
  const [fleet_id, setFleet] = useState("");
  return (
    <UpdateRobot
      robot={robot}
      onClose={onClose}
      title="Move to another fleet"
      description="The robot moves to the site of that fleet. It receives the fleet's config with the next config deployment. It receives the fleet's release immediately if the fleet has auto-update enabled."
      verb="Move"
      done="Moved"
      change={fleet_id === "" ? undefined : { fleet_id }}
      command={fleet_id === "" ? undefined : robotLines.move(robot.id, fleet_id)}
    >
      <FleetSelect except={robot.fleet_id} value={fleet_id} onValue={setFleet} />
    </UpdateRobot>
  );
}

/** Creates the enrollment key for a robot's new computer and shows it once. */
function ReplaceComputer({ robot: { id, name }, onClose }: Props) {
  const replace = useAction("replaceRobot");
  const made = replace.data?.data;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Replace computer"
      description={
        made === undefined
          ? "Creates a key that can be used once within one day. The computer that enrolls with it becomes this robot, with the same name, fleet, labels, releases and config. From then on, the previous computer is refused; until then, it keeps working."
          : undefined
      }
      actions={
        made === undefined ? (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button look="primary" busy={replace.isPending} onClick={() => replace.mutate({ params: { id } })}>
              Create key
            </Button>
          </>
        ) : (
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        )
      }
    >
      {made === undefined ? (
        <Command>{robotLines.replace(id)}</Command>
      ) : (
        <>
          <SecretOnce secret={made.key ?? ""}>
            The key for the new computer of <bdi className="font-medium [overflow-wrap:anywhere]">{name}</bdi> is shown only once. It
            expires <Time at={made.expires_at} />.
          </SecretOnce>
          <p className="mt-4 mb-1">Run this command on the new computer, with an empty state directory:</p>
          <Command>
            {`ROAMFLEET_ENROLL_KEY=${made.key ?? "KEY"} ${shellLine("rf-agent", "run", "--server", window.location.origin, "--state", "/var/lib/roamfleet-agent")}`}
          </Command>
        </>
      )}
    </Dialog>
  );
}
