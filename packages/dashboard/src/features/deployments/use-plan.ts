import { ApiError } from "@roamfleet/sdk/browser";
import type { DeploymentPlan, Rollout } from "@roamfleet/protocol/routes";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../../api/client.ts";
import { randomId } from "../../api/random-id.ts";
import { type Errors, errorsOf } from "./draft.ts";

const PAUSE_MS = 400;
/** A plan is of its moment: it is made anew this long after. */
const STALE_MS = 15_000;

export interface PlanRequest {
  release: string;
  robot_id?: string;
  fleet_id?: string;
  scheduled_at?: string;
  rollout: Rollout;
}

export interface Planned {
  plan: DeploymentPlan | undefined;
  /** What the fields say now is not in the plan yet. */
  is_behind: boolean;
  /** What the server refused of a field. */
  errors: Errors;
  /** What it refused that is about no field, or that it did not answer. */
  error: unknown;
  retry: () => void;
}

/** The request once its writer pauses. */
function usePaused(request: PlanRequest | undefined): string | undefined {
  const text = request === undefined ? undefined : JSON.stringify(request);
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

/** Who would get the deployment, and when: asked of the server each time that the request changes. Undefined: nothing to ask yet. */
export function usePlan(request: PlanRequest | undefined): Planned {
  const asked = usePaused(request);
  const result = useQuery({
    queryKey: ["planDeployment", asked] as const,
    queryFn: async ({ signal }) => {
      const body = { ...(JSON.parse(asked ?? "{}") as PlanRequest), dry_run: true as const };
      const answer = await api.call("createDeployment", { body, idempotency_key: randomId(), signal });
      // The answer to a dry run is another one than that of the route.
      return (answer.body as unknown as { data: DeploymentPlan }).data;
    },
    enabled: asked !== undefined,
    placeholderData: keepPreviousData,
    staleTime: STALE_MS,
    retry: false,
  });
  const { error } = result;
  const errors = error instanceof ApiError ? errorsOf(error.message) : undefined;
  const is_behind = request !== undefined && (asked !== JSON.stringify(request) || result.isPlaceholderData || result.isPending);
  return {
    plan: request === undefined || error !== null ? undefined : result.data,
    is_behind,
    errors: is_behind ? {} : (errors ?? {}),
    error: errors === undefined && !is_behind ? (error ?? undefined) : undefined,
    retry: () => void result.refetch(),
  };
}
