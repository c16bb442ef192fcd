import type { Robot, RobotConfig, RobotConfigDiff } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { EyeOff, Rocket } from "lucide-react";
import { useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { query, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Badge,
  Button,
  Card,
  CardList,
  Command,
  ConfigState,
  EmptyState,
  LinkButton,
  QueryState,
  Section,
  Text,
  type Tone,
} from "../../ui/index.ts";
import { robotLines, valueText } from "./robot-text.ts";
import { useRobot } from "./use-robot.ts";

/** The effective config of a robot with origins, the pending changes, and the files deployed to and reported by the robot. */
export function RobotConfigTab() {
  const robot = useRobot();
  const config = useQuery({ ...query("getRobotConfig", { params: { id: robot?.id ?? "" } }), enabled: robot !== undefined });
  if (robot === undefined) return null;
  return (
    <QueryState query={config}>
      {({ data }) =>
        data.effective.length === 0 && data.namespaces.length === 0 ? (
          <EmptyState
            title="No config values yet"
            command={`rf configs set KEY VALUE --robot ${robot.id}`}
            actions={
              <LinkButton to="/configs" search={{ scope: "robot", scope_id: robot.id }}>
                Go to configs
              </LinkButton>
            }
          >
            Values that are set for the organization, the site, the fleet or this robot appear here.
          </EmptyState>
        ) : (
          <>
            <ConfigDiff robot={robot} drifted={data.namespaces.filter(({ state }) => state === "drifted").length} />
            <Namespaces namespaces={data.namespaces} />
            <EffectiveValues config={data} />
            <div className="max-w-xl">
              <Command>{robotLines.config(robot.id)}</Command>
            </div>
          </>
        )
      }
    </QueryState>
  );
}

/** The config files of the robot: the deployed and the reported digest. */
function Namespaces({ namespaces }: Pick<RobotConfig, "namespaces">) {
  if (namespaces.length === 0) return null;
  return (
    <Section title="Files on the robot">
      <CardList items={namespaces}>{(namespace) => <Namespace key={namespace.namespace} {...namespace} />}</CardList>
    </Section>
  );
}

const DIGEST_CHARACTERS = 12;
const short = (digest: string | null): string => (digest === null ? "none" : digest.slice(0, DIGEST_CHARACTERS));

function Namespace({ namespace, deployed_version, deployed_sha256, reported_sha256, state }: RobotConfig["namespaces"][number]) {
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-2.5">
      <span className="min-w-0 flex-1 font-medium max-sm:basis-full">
        <Text>{namespace}</Text>
      </span>
      <span className="text-xs text-muted">
        deployed: <code className="font-mono">{short(deployed_sha256)}</code>
        {deployed_version !== null && ` (version ${deployed_version})`}
      </span>
      <span className="text-xs text-muted">
        on robot: <code className="font-mono">{short(reported_sha256)}</code>
      </span>
      <ConfigState state={state} />
      {state === "drifted" && <p className="w-full text-xs">The file was changed on the robot. Deploy config to restore it.</p>}
    </li>
  );
}

type Change = RobotConfigDiff["changes"][number];
const TONES: Record<Change["change"], Tone> = { added: "ok", changed: "info", removed: "bad" };

/**
 * Shows what the next config deployment would change in a robot's files, with a button that deploys. `drifted`: the number of files
 * that were changed on the robot.
 */
function ConfigDiff({ robot, drifted }: { robot: Robot; drifted: number }) {
  const diff = useQuery(query("diffRobotConfig", { params: { id: robot.id } }));
  const may_change = useMay("operator") && robot.status !== "decommissioned";
  const [is_asking, setAsking] = useState(false);
  const changes = diff.data?.data.changes;
  return (
    <Section
      title="Next config deployment"
      actions={
        may_change && (
          <Button
            look={(changes !== undefined && changes.length > 0) || drifted > 0 ? "primary" : "secondary"}
            icon={Rocket}
            busy={false}
            onClick={() => setAsking(true)}
          >
            Deploy config
          </Button>
        )
      }
    >
      <QueryState query={diff} rows={2}>
        {({ data }) =>
          data.changes.length === 0 ? (
            <p className="text-muted">{drifted === 0 ? "Up to date" : `No values change. ${putBackText(drifted)}`}</p>
          ) : (
            <>
              <CardList items={data.changes}>
                {(change) => <ChangeItem key={`${change.namespace}/${change.key}`} change={change} />}
              </CardList>
              {drifted > 0 && <p className="mt-2 text-muted">{putBackText(drifted)}</p>}
              <div className="mt-2 max-w-xl">
                <Command>{robotLines.configDiff(robot.id)}</Command>
              </div>
            </>
          )
        }
      </QueryState>
      {is_asking && <DeployConfig robot={robot} count={changes?.length} onClose={() => setAsking(false)} />}
    </Section>
  );
}

const putBackText = (drifted: number): string =>
  drifted === 1 ? "Restores the file that was changed on the robot." : `Restores the ${drifted} files that were changed on the robot.`;

function ChangeItem({ change: { namespace, key, change, deployed, effective, secret } }: { change: Change }) {
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 gap-y-1 px-4 py-2">
      <Badge tone={TONES[change]}>{change}</Badge>
      <span className="min-w-0">
        <Text className="text-muted">{`${namespace} / `}</Text>
        <Text className="font-medium">{key}</Text>
      </span>
      {secret ? (
        <span className="text-muted">secret</span>
      ) : (
        <span className="flex min-w-0 flex-wrap items-baseline gap-2 font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap">
          {change !== "added" && <del className="max-h-24 overflow-y-auto rounded bg-bad-soft px-1 text-bad">{valueText(deployed)}</del>}
          {change !== "removed" && (
            <ins className="max-h-24 overflow-y-auto rounded bg-ok-soft px-1 text-ok no-underline">{valueText(effective)}</ins>
          )}
        </span>
      )}
    </li>
  );
}

function DeployConfig({ robot: { id, status }, count, onClose }: { robot: Robot; count: number | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  return (
    <ConfirmAction
      route="createConfigDeployment"
      // The empty idempotency key satisfies the type: useAction replaces it.
      args={{ body: { robot_id: id }, idempotency_key: "" }}
      onClose={onClose}
      title="Deploy config to this robot?"
      consequence={`${count === undefined ? "The effective values" : count === 0 ? "The config files, without changed values," : `${count} ${count === 1 ? "change" : "changes"}`} will be written to the robot ${status === "online" ? "now" : "when it reconnects"}, and its apps are notified. Other robots do not change.`}
      verb="Deploy config"
      done="Config deployment created"
      onSuccess={({ data }) => void navigate({ to: "/config-deployments/$id", params: { id: data.id } })}
      command={robotLines.configDeploy(id)}
    />
  );
}

type Value = RobotConfig["effective"][number];

/** The effective values by file, each with the scope at which it is set. */
function EffectiveValues({ config: { effective } }: { config: RobotConfig }) {
  const by_namespace = Map.groupBy(effective, ({ namespace }) => namespace);
  return (
    <Section title="Effective values">
      {effective.length === 0 && <p className="text-muted">None. The next config deployment removes the config files from the robot.</p>}
      {[...by_namespace].map(([namespace, values]) => (
        <Card key={namespace} className="mb-3 overflow-hidden !p-0">
          <h3 className="border-b border-line bg-sunken px-4 py-1.5 text-xs font-medium text-muted">
            <Text>{namespace}</Text>
          </h3>
          <ul className="divide-y divide-line">
            {values.map((value) => (
              <ValueItem key={value.key} value={value} />
            ))}
          </ul>
        </Card>
      ))}
    </Section>
  );
}

function ValueItem({ value: { key, value, secret, scope, scope_id, config_id, version } }: { value: Value }) {
  return (
    <li className="grid gap-x-4 gap-y-1 px-4 py-2 sm:grid-cols-[minmax(0,1fr)_minmax(0,2fr)_12rem]">
      <Link to="/configs/$id" params={{ id: config_id }} className="min-w-0 font-medium text-accent hover:underline">
        <Text>{key}</Text>
      </Link>
      {secret ? (
        <span className="inline-flex items-center gap-1.5 text-muted">
          <EyeOff size={14} aria-hidden /> secret, sent to robots only
        </span>
      ) : (
        <code className="max-h-32 overflow-y-auto font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap">{valueText(value)}</code>
      )}
      <span className="flex min-w-0 items-start gap-2 text-xs text-muted sm:justify-end">
        <Origin scope={scope} scope_id={scope_id} /> {`version ${version}`}
      </span>
    </li>
  );
}

function Origin({ scope, scope_id }: Pick<Value, "scope" | "scope_id">) {
  const { fleet_names, site_names } = usePlaces();
  const id = scope_id ?? "";
  if (scope === "fleet")
    return (
      <Link to="/fleets/$id" params={{ id }} className="max-w-40 min-w-0" title="Set for the fleet">
        <Badge>{`fleet ${fleet_names.get(id) ?? ""}`}</Badge>
      </Link>
    );
  if (scope === "site")
    return (
      <Link to="/sites/$id" params={{ id }} className="max-w-40 min-w-0" title="Set for the site">
        <Badge>{`site ${site_names.get(id) ?? ""}`}</Badge>
      </Link>
    );
  return <Badge tone={scope === "robot" ? "info" : "idle"}>{scope === "robot" ? "this robot" : "organization"}</Badge>;
}
