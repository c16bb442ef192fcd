import type { Robot } from "@roamfleet/protocol/routes";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Rocket } from "lucide-react";
import { createContext, use, useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { usePlaces } from "../../api/places.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  type Column,
  Command,
  cx,
  DataTable,
  EmptyState,
  ErrorState,
  LinkButton,
  Skeleton,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import { ConfigsFrame } from "./configs-frame.tsx";
import type { DriftSearch } from "./configs-search.ts";
import { DeployDialog } from "./deploy-dialog.tsx";

const keyOf = ({ id }: Robot): string => id;
/** The action of the button in each row. */
const DeployContext = createContext<(robot_id: string) => void>(() => {});

const COLUMNS: readonly Column<Robot>[] = [
  {
    name: "Robot",
    width: "minmax(7rem, 2fr)",
    cell: ({ id, name }) => (
      <Link to="/robots/$id" params={{ id }} className="block min-w-0 font-medium hover:underline">
        <Text line>{name}</Text>
      </Link>
    ),
  },
  { name: "Fleet", width: "minmax(5rem, 1fr)", priority: 2, cell: ({ fleet_id }) => <FleetName id={fleet_id} /> },
  { name: "Config", width: "6.5rem", priority: 2, cell: ({ config_state }) => <StatusBadge status={config_state} /> },
  { name: "Status", width: "7.5rem", priority: 3, cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Last seen", width: "7rem", priority: 3, cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  { name: "", width: "10.5rem", align: "right", cell: ({ id }) => <RowActs id={id} /> },
];

function FleetName({ id }: { id: string }) {
  return <Text line>{usePlaces().fleet_names.get(id)}</Text>;
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
        <Button className="!h-7 !px-2" icon={<Rocket size={14} aria-hidden />} onClick={() => deploy(id)}>
          Deploy
        </Button>
      )}
    </span>
  );
}

const STATES = {
  drifted: {
    title: "Drifted",
    text: "A config file was changed or removed on the robot. The next config deployment restores it.",
  },
  pending: { title: "Pending", text: "A config deployment to the robot is in progress." },
} as const;

/** Robots whose config files differ from the deployed ones, and robots with a config deployment in progress. */
export function DriftPage() {
  const { state }: DriftSearch = useSearch({ from: "/app/configs/drift" });
  const navigate = useNavigate();
  const [robot_id, setRobot] = useState<string>();
  const { query, rows, has_more, onEnd, onRange } = useLivePages("listRobots", keyOf, { query: { config_state: state } });
  return (
    <ConfigsFrame label="Config drift">
      <div role="group" aria-label="State" className="mb-2 flex flex-wrap gap-2">
        {(["drifted", "pending"] as const).map((each) => (
          <LinkButton
            key={each}
            to="/configs/drift"
            search={{ state: each }}
            className={cx(each === state && "!border-accent !bg-accent-soft")}
            aria-current={each === state ? "true" : undefined}
          >
            {STATES[each].title}
          </LinkButton>
        ))}
      </div>
      <p className="mb-3 text-muted">{STATES[state].text}</p>
      <DeployContext value={setRobot}>
        {query.data === undefined ? (
          query.isError ? (
            <ErrorState error={query.error} onRetry={() => void query.refetch()} />
          ) : (
            <Skeleton rows={8} />
          )
        ) : (
          <DataTable
            label={`Robots whose config is ${state}`}
            columns={COLUMNS}
            rows={rows}
            rowKey={keyOf}
            onOpen={({ id }) => void navigate({ to: "/configs", search: { scope: "robot", scope_id: id } })}
            has_more={has_more}
            onEnd={onEnd}
            onRange={onRange}
            empty={
              <EmptyState title={state === "drifted" ? "No drifted robots" : "No pending robots"}>
                {state === "drifted" ? "All config files match the last deployment." : "No config deployment is in progress."}
              </EmptyState>
            }
          />
        )}
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
