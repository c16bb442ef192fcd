import { ApiError } from "@roamfleet/sdk/browser";
import type { DeploymentPlan, Rollout } from "@roamfleet/protocol/routes";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../../api/client.ts";
import { randomId } from "../../api/random-id.ts";
import { type Errors, errorsOf } from "./draft.ts";

const PAUSE_MS = 400;
/** Age at which a plan is refetched, because it depends on current state. */
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
  /** Whether the plan does not contain the latest input yet. */
  is_behind: boolean;
  /** The server's errors by field. */
  errors: Errors;
  /** An error that is about no field, or a missing response. */
  error: unknown;
  retry: () => void;
}

/** The request, debounced. */
function usePaused(request: PlanRequest | undefined): string | undefined {
  const text = request === undefined ? undefined : JSON.stringify(request);
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

/** Loads the plan of a deployment after each change of the request. Undefined request: nothing to plan yet. */
export function usePlan(request: PlanRequest | undefined): Planned {
  const asked = usePaused(request);
  const result = useQuery({
    queryKey: ["planDeployment", asked] as const,
    queryFn: async ({ signal }) => {
      const body = { ...(JSON.parse(asked ?? "{}") as PlanRequest), dry_run: true as const };
      const answer = await api.call("createDeployment", { body, idempotency_key: randomId(), signal });
      // A dry run has a different response type than the route.
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
