import { shellLine } from "../../ui/shell-text.ts";

/** The `rf` commands equivalent to the actions on a robot. */
export const robotLines = {
  show: (id: string): string => shellLine("rf", "robots", "show", id),
  health: (id: string): string => shellLine("rf", "robots", "inspect", id),
  timeline: (id: string): string => shellLine("rf", "robots", "timeline", id),
  config: (id: string): string => shellLine("rf", "configs", "effective", "--robot", id),
  configDiff: (id: string): string => shellLine("rf", "configs", "diff", "--robot", id),
  configDeploy: (id: string, namespace?: string): string =>
    shellLine("rf", "configs", "deploy", "--robot", id, ...(namespace === undefined ? [] : ["--namespace", namespace]), "--watch"),
  rename: (id: string, name: string): string => shellLine("rf", "api", "PATCH", `/api/robots/${id}`, "-f", `name=${name}`),
  move: (id: string, fleet_id: string): string => shellLine("rf", "api", "PATCH", `/api/robots/${id}`, "-f", `fleet_id=${fleet_id}`),
  labels: (id: string, labels: Record<string, string>): string =>
    `${shellLine("rf", "api", "PATCH", `/api/robots/${id}`, "--input", "-")} <<'END'\n${JSON.stringify({ labels })}\nEND`,
  replace: (id: string): string => shellLine("rf", "robots", "replace", id),
  admit: (id: string): string => shellLine("rf", "robots", "admit", id),
  approve: (id: string): string => shellLine("rf", "robots", "approve", id),
  decommission: (id: string): string => shellLine("rf", "api", "DELETE", `/api/robots/${id}`),
};
