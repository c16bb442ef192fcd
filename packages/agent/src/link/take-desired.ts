import type { Desired } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import type { Deployments, Reporter } from "../contract.ts";
import { errorText } from "../disk/write-atomically.ts";
import { failureOf } from "../runtime/failure.ts";
import type { DesiredStore } from "./desired-store.ts";

/** Stores a desired state on disk, applies it, then reports it. A stored generation is reported again, since the server may not know. */
export function takeDesired(
  parts: { store: DesiredStore; reporter: Reporter; deployments: Deployments; log: Logger },
  desired: Desired,
): void {
  const { store, reporter, deployments, log } = parts;
  deployments.learn?.(desired);
  const act = (fresh: boolean): void => {
    try {
      if (fresh) deployments.desired(desired);
      reporter.report({ kind: "observed", generation: store.generation });
    } catch (error) {
      log.error({ generation: desired.generation, reason: errorText(error) }, "could not apply the desired state");
    }
  };
  store.take(desired, act, (error) => refuseConfigs(desired, store.current, reporter, error));
}

/**
 * A disk without room for the desired state has no room for a config file either, so its deployment fails with that reason. Without this it would
 * time out, like releases, which take longer and may find room meanwhile.
 */
function refuseConfigs(desired: Desired, before: Desired | undefined, reporter: Reporter, error: unknown): void {
  const { reason, message } = failureOf(error, "timeout");
  if (reason !== "insufficient_disk") return;
  for (const [namespace, { target_id, deployment_id, attempt }] of Object.entries(desired.configs)) {
    const known = before?.configs[namespace];
    if (target_id === null || deployment_id === null || (known?.target_id === target_id && known.attempt === attempt)) continue;
    reporter.report({ kind: "target", target_id, deployment_id, attempt, status: "failed", reason, message });
  }
}
