import type { Fleet } from "@roamfleet/protocol/routes";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ConfirmAction, DeletePlace, RenamePlace } from "../../api/action-dialogs.tsx";
import { useAction, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { shellLine } from "../../ui/format.ts";
import {
  copyAsRf,
  counted,
  Dialog,
  EmptyState,
  FormDialog,
  LinkButton,
  Menu,
  namedOptions,
  NameInput,
  Select,
  Switch,
} from "../../ui/index.ts";

interface RobotCountsProps extends Pick<Fleet, "robot_count" | "online_count"> {
  search: { fleet_id: string } | { site_id: string };
}

/** Links to the robots of a fleet or site, and to those that are online. */
export const RobotCounts = ({ search, robot_count, online_count }: RobotCountsProps) => (
  <>
    <Link to="/robots" search={search} className="hover:underline">
      {counted(robot_count, "robot")}
    </Link>
    <Link to="/robots" search={{ ...search, status: "online" }} className="hover:underline">
      {online_count.toLocaleString()} online
    </Link>
  </>
);

/** The actions on a fleet. */
export function FleetMenu({ fleet }: { fleet: Fleet }) {
  const may_change = useMay("operator");
  const may_delete = useMay("admin");
  const navigate = useNavigate();
  const { id, name, follow, robot_count } = fleet;
  const showRobots = (): void => void navigate({ to: "/robots", search: { fleet_id: id } });
  const place = { kind: "fleet", id, name } as const;
  return (
    <Menu
      label={`Actions for ${name.slice(0, 80)}`}
      entries={[
        { label: "Show robots", onSelect: showRobots },
        { label: "Show logs", onSelect: () => void navigate({ to: "/fleets/$id/logs", params: { id } }) },
        may_change && {
          label: "Rename…",
          renderDialog: (close) => <RenamePlace {...place} onClose={close} command={(typed) => fleetLines.rename(id, typed)} />,
        },
        may_change && {
          label: follow ? "Disable auto-update…" : "Enable auto-update…",
          renderDialog: (close) => <FollowFleet fleet={fleet} onClose={close} />,
        },
        copyAsRf(fleetLines.show(id)),
        may_delete && {
          label: "Delete…",
          danger: true,
          renderDialog: (close) => (
            <DeletePlace
              {...place}
              onClose={close}
              full={
                robot_count > 0 && {
                  text: `${robot_count.toLocaleString()} ${robot_count === 1 ? "robot is" : "robots are"} in this fleet. Move them to another fleet or decommission them first.`,
                  verb: "Show robots",
                  onShow: showRobots,
                }
              }
              consequence="Deletes the fleet, which has no robots, and its enrollment keys."
              command={fleetLines.delete(id)}
            />
          ),
        },
      ]}
    />
  );
}

/** Enables or disables auto-update, after showing its effect. */
export const FollowFleet = ({ fleet: { id, follow }, onClose }: { fleet: Fleet; onClose: () => void }) => (
  <ConfirmAction
    route="updateFleet"
    args={{ params: { id }, body: { follow: !follow } }}
    onClose={onClose}
    title={follow ? "Disable auto-update?" : "Enable auto-update?"}
    consequence={
      follow
        ? "Robots that join this fleet, and robots that reconnect after a deployment expired for them, keep their releases and config until the next deployment. Updates in progress continue."
        : "Robots that join this fleet, and robots that reconnect after a deployment expired for them, receive the fleet's releases and config when they connect. Each gets a separate deployment, verified and rolled back like any other."
    }
    verb={follow ? "Disable auto-update" : "Enable auto-update"}
    done={follow ? "Auto-update disabled" : "Auto-update enabled"}
    command={fleetLines.follow(id, !follow)}
  />
);

export function NewFleet({ site_id, onClose }: { site_id?: string | undefined; onClose: () => void }) {
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
      <NameInput value={name} onValue={setName} autoFocus />
      <Select label="Site" value={site_id} options={namedOptions(sites)} onValue={setSite} />
      <Switch
        label="Auto-update new robots"
        hint="Robots that join this fleet, and robots that reconnect after a deployment expired for them, receive the fleet's releases and config."
        checked={follow}
        onChange={setFollow}
      />
    </FormDialog>
  );
}

/** The `rf` commands equivalent to the actions on fleets. */
export const fleetLines = {
  list: "rf fleets list",
  show: (id: string) => shellLine("rf", "fleets", "show", id),
  create: (name: string, site_id: string) => shellLine("rf", "fleets", "create", name || "NAME", "--site", site_id || "SITE"),
  rename: (id: string, name: string) => shellLine("rf", "fleets", "update", id, "--name", name || "NAME"),
  follow: (id: string, follow: boolean) => shellLine("rf", "fleets", "update", id, "--follow", follow ? "on" : "off"),
  delete: (id: string) => shellLine("rf", "api", "DELETE", `/api/fleets/${id}`),
};
