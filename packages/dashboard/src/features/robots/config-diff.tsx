import type { Robot, RobotConfigDiff } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Rocket } from "lucide-react";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Badge, Button, Card, Command, ConfirmDialog, Section, Text, type Tone } from "../../ui/index.ts";
import { robotLines } from "./robot-lines.ts";
import { valueText } from "./value-text.ts";

type Change = RobotConfigDiff["changes"][number];
const TONES: Record<Change["change"], Tone> = { added: "ok", changed: "info", removed: "bad" };

/**
 * Shows what the next config deployment would change in a robot's files, with a button that deploys. `drifted`: the number of files
 * that were changed on the robot.
 */
export function ConfigDiff({ robot, drifted }: { robot: Robot; drifted: number }) {
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
            icon={<Rocket size={14} aria-hidden />}
            onClick={() => setAsking(true)}
          >
            Deploy config
          </Button>
        )
      }
    >
      {changes !== undefined && changes.length === 0 && (
        <p className="text-muted">{drifted === 0 ? "Up to date" : `No values change. ${putBackText(drifted)}`}</p>
      )}
      {changes !== undefined && changes.length > 0 && (
        <>
          <Card className="mb-2 !p-0">
            <ul className="divide-y divide-line">
              {changes.map((change) => (
                <Item key={`${change.namespace}/${change.key}`} change={change} />
              ))}
            </ul>
          </Card>
          {drifted > 0 && <p className="mb-2 text-muted">{putBackText(drifted)}</p>}
          <div className="max-w-xl">
            <Command>{robotLines.configDiff(robot.id)}</Command>
          </div>
        </>
      )}
      {is_asking && <DeployDialog robot={robot} count={changes?.length} onClose={() => setAsking(false)} />}
    </Section>
  );
}

const putBackText = (drifted: number): string =>
  drifted === 1 ? "Restores the file that was changed on the robot." : `Restores the ${drifted} files that were changed on the robot.`;

function Item({ change: { namespace, key, change, deployed, effective, secret } }: { change: Change }) {
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

function DeployDialog({ robot: { id, status }, count, onClose }: { robot: Robot; count: number | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  const deploy = useAction("createConfigDeployment", {
    done: "Config deployment created",
    onSuccess: ({ data }) => void navigate({ to: "/config-deployments/$id", params: { id: data.id } }),
  });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Deploy config to this robot?"
      consequence={`${count === undefined ? "The effective values" : count === 0 ? "The config files, without changed values," : `${count} ${count === 1 ? "change" : "changes"}`} will be written to the robot ${status === "online" ? "now" : "when it reconnects"}, and its apps are notified. Other robots do not change.`}
      verb="Deploy config"
      busy={deploy.isPending}
      command={robotLines.configDeploy(id)}
      // useAction sets the key.
      onConfirm={() => deploy.mutate({ body: { robot_id: id }, idempotency_key: "" })}
    />
  );
}
