import type { RobotConfig } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { Card, Command, EmptyState, QueryState, Section, StatusBadge, Text } from "../../ui/index.ts";
import { ConfigDiff } from "./config-diff.tsx";
import { EffectiveValues } from "./effective-values.tsx";
import { robotLines } from "./robot-lines.ts";
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
          <EmptyState title="No config" command={`rf configs set KEY VALUE --robot ${robot.id}`}>
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
      <Card className="!p-0">
        <ul className="divide-y divide-line">
          {namespaces.map((namespace) => (
            <Namespace key={namespace.namespace} {...namespace} />
          ))}
        </ul>
      </Card>
    </Section>
  );
}

const DIGEST_CHARACTERS = 12;
const short = (digest: string | null): string => (digest === null ? "none" : digest.slice(0, DIGEST_CHARACTERS));

function Namespace({ namespace, deployed_version, deployed_sha256, reported_sha256, state }: RobotConfig["namespaces"][number]) {
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-2.5">
      <span className="min-w-0 flex-1 font-medium">
        <Text>{namespace}</Text>
      </span>
      <span className="text-xs text-muted">
        deployed: <code className="font-mono">{short(deployed_sha256)}</code>
        {deployed_version !== null && ` (version ${deployed_version})`}
      </span>
      <span className="text-xs text-muted">
        on robot: <code className="font-mono">{short(reported_sha256)}</code>
      </span>
      <StatusBadge status={state} />
      {state === "drifted" && <p className="w-full text-xs">The file was changed on the robot. Deploy config to restore it.</p>}
    </li>
  );
}
