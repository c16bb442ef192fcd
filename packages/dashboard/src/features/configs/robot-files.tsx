import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { StatusBadge, Text } from "../../ui/index.ts";

const MEANINGS = {
  in_sync: "matches the last deployment",
  pending: "config deployment in progress",
  drifted: "changed or removed on the robot; the next config deployment restores it",
  unknown: "never deployed",
} as const;

/** The config files of a robot and whether they match the deployed ones. */
export function RobotFiles({ robot_id }: { robot_id: string }) {
  const config = useQuery(query("getRobotConfig", { params: { id: robot_id } })).data?.data;
  if (config === undefined || config.namespaces.length === 0) return null;
  return (
    <ul aria-label="Files on the robot" className="mb-3 flex flex-wrap gap-2">
      {config.namespaces.map(({ namespace, state }) => (
        <li key={namespace} className="flex max-w-full items-center gap-2 rounded-md border border-line px-2.5 py-1.5">
          <Text line className="font-mono text-xs">{`${namespace}.json`}</Text>
          <StatusBadge status={state} />
          <span className="text-xs text-muted">{MEANINGS[state]}</span>
        </li>
      ))}
    </ul>
  );
}
