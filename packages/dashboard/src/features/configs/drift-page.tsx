import type { Robot } from "@roamfleet/protocol/routes";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Rocket } from "lucide-react";
import { createContext, use, useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  type Column,
  Command,
  ConfigState,
  EmptyState,
  LastSeen,
  LinkButton,
  ListTable,
  NameLink,
  Segments,
  StatusBadge,
  TextLine,
} from "../../ui/index.ts";
import { ConfigsFrame } from "./configs-frame.tsx";
import { DeployDialog } from "./deploy-dialog.tsx";

/** Context with the function that the button in each row calls to deploy configs to its robot. */
const DeployContext = createContext<(robot_id: string) => void>(() => {});

const COLUMNS: readonly Column<Robot>[] = [
  {
    name: "Robot",
    width: "minmax(7rem, 2fr)",
    cell: ({ id, name }) => <NameLink to="/robots/$id" params={{ id }} name={name} className="font-medium" />,
  },
  { name: "Fleet", width: "minmax(5rem, 1fr)", priority: 2, cell: ({ fleet_id }) => <FleetName id={fleet_id} /> },
  { name: "Config", width: "6.5rem", priority: 2, cell: ({ config_state }) => <ConfigState state={config_state} /> },
  { name: "Status", width: "7.5rem", priority: 3, cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Last seen", width: "7rem", priority: 3, cell: (robot) => <LastSeen robot={robot} /> },
  { name: "", width: "10.5rem", align: "right", cell: ({ id }) => <RowActs id={id} /> },
];

function FleetName({ id }: { id: string }) {
  return <TextLine>{usePlaces().fleet_names.get(id) ?? "a fleet"}</TextLine>;
}

function RowActs({ id }: { id: string }) {
  const deploy = use(DeployContext);
  const may_deploy = useMay("operator");
  return (
    <span className="inline-flex gap-1">
      <LinkButton look="quiet" to="/configs" search={{ scope: "robot", scope_id: id }} className="!h-7 !px-2">
        Values
      </LinkButton>
      {may_deploy && (
        <Button className="!h-7 !px-2" icon={Rocket} busy={false} onClick={() => deploy(id)}>
          Deploy
        </Button>
      )}
    </span>
  );
}

const STATES = {
  drifted: "Robots on which a deployed config file was changed or removed. The next config deployment restores it.",
  pending: "Robots to which a config deployment is in progress.",
} as const;

/** Robots whose config files differ from the deployed ones, and robots with a config deployment in progress. */
export function DriftPage() {
  const { state } = useSearch({ from: "/app/configs/drift" });
  const navigate = useNavigate();
  const [robot_id, setRobot] = useState<string>();
  const list = useLivePages("listRobots", { query: { config_state: state } });
  return (
    <ConfigsFrame label="Config drift">
      <div className="mb-2">
        <Segments
          label="State"
          options={[
            { value: "drifted", label: "Drifted" },
            { value: "pending", label: "Pending" },
          ]}
          value={state}
          onChange={(each) => void navigate({ to: "/configs/drift", search: { state: each } })}
        />
      </div>
      <p className="mb-3 text-muted">{STATES[state]}</p>
      <DeployContext value={setRobot}>
        <ListTable
          label={state === "drifted" ? "Robots with config drift" : "Robots with a pending config deployment"}
          list={list}
          columns={COLUMNS}
          onOpen={({ id }) => void navigate({ to: "/configs", search: { scope: "robot", scope_id: id } })}
          empty={
            <EmptyState title={state === "drifted" ? "No config drift" : "No pending config deployments"}>
              Robots appear here automatically.
            </EmptyState>
          }
        />
      </DeployContext>
      <div className="mt-3 max-w-xl">
        <Command>{`rf robots list --config ${state}`}</Command>
      </div>
      {robot_id !== undefined && (
        <DeployDialog place={{ scope: "robot", scope_id: robot_id }} namespace={undefined} onClose={() => setRobot(undefined)} />
      )}
    </ConfigsFrame>
  );
}
