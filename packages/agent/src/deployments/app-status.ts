import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { AppStatus, ReleaseName, WorkloadStatus } from "../contract.ts";
import type { AppState, DesiredAppState } from "./state.ts";

const nameOf = (release: DesiredRelease | null): ReleaseName | null =>
  release === null ? null : { id: release.id, tag: release.tag, kind: release.kind };

/** Returns the status of an app for the robot's own software. Pure. */
export function appStatus(state: AppState, desired: DesiredAppState, held: AppStatus["held"], workload: WorkloadStatus | undefined): AppStatus {
  return {
    app: state.app,
    current: nameOf(state.current),
    desired: typeof desired === "string" ? null : nameOf(desired.release),
    phase: state.work?.phase ?? null,
    held,
    workload: workload === undefined ? null : { status: workload.status, restarts: workload.restarts },
  };
}

/** Whether the running release is being changed: from here on the robot finishes or rolls back what it began. */
export const isChanging = ({ phase }: Pick<AppStatus, "phase">): boolean =>
  phase === "installing" || phase === "verifying" || phase === "rolling_back" || phase === "removing";
