import type { Severity } from "@roamfleet/protocol";
import type { AlertCondition } from "@roamfleet/protocol/routes";

interface DefaultRule {
  name: string;
  condition: AlertCondition;
  for_seconds: number;
  severity: Severity;
}

/** The rules of a new org. Its admins may change or delete them. */
export const DEFAULT_RULES: readonly DefaultRule[] = [
  { name: "Robot offline", condition: { type: "robot_offline" }, for_seconds: 600, severity: "warning" },
  { name: "Check failing", condition: { type: "check_failing" }, for_seconds: 300, severity: "warning" },
  { name: "Disk almost full", condition: { type: "disk_above", percent: 90 }, for_seconds: 600, severity: "warning" },
  { name: "Config drift", condition: { type: "config_drift" }, for_seconds: 1_800, severity: "info" },
  { name: "Deployment failed", condition: { type: "deployment_failed" }, for_seconds: 0, severity: "critical" },
  { name: "Deployment paused", condition: { type: "deployment_paused" }, for_seconds: 0, severity: "warning" },
];
