import type { Deployment, Incident, Overview } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { useNow, useOutage } from "../../ui/index.ts";
import { bySeverity } from "../incidents/incident-parts.tsx";
import { type Verdict, verdictOf } from "./verdict.ts";

const INCIDENTS_MAX = 100;
const DEPLOYMENTS_MAX = 5;

interface Found {
  verdict: Verdict;
  /** Unresolved incidents, the most severe first. */
  incidents: readonly Incident[] | undefined;
  paused: readonly Deployment[];
  is_stale: boolean;
}

/** Loads what the verdict needs besides the overview, and computes the verdict. */
export function useVerdict(overview: Overview): Found {
  const { failed_since } = overview.deployments;
  const incidents = useQuery(query("listIncidents", { query: { unresolved: true, limit: INCIDENTS_MAX } }));
  // The start of the period advances with each overview. Its day is enough for the key, so that the list is not loaded each time.
  const since = `${failed_since.slice(0, 10)}T00:00:00Z`;
  const asked = { limit: DEPLOYMENTS_MAX, cause: "request" } as const;
  const failed = useQuery(query("listDeployments", { query: { ...asked, status: "failed", since } }));
  const paused = useQuery(query("listDeployments", { query: { ...asked, status: "paused" } }));
  const outage = useOutage();
  const now_ms = useNow();
  // A failed refetch leaves old data behind: it is not known to be current. During an outage, the verdict states the age of all data.
  const known = <T>({ data, isError }: { data: { items: readonly T[] } | undefined; isError: boolean }) =>
    isError && outage === undefined ? undefined : data?.items;
  const verdict = verdictOf({
    overview,
    incidents: known<Incident>(incidents),
    has_more_incidents: incidents.data !== undefined && incidents.data.next_cursor !== null,
    failed: known<Deployment>(failed),
    paused: known<Deployment>(paused),
    is_loading: [incidents, failed, paused].every(
      ({ failureReason, errorUpdateCount }) => failureReason === null && errorUpdateCount === 0,
    ),
    stale_since_ms: outage?.since_ms,
    now_ms,
  });
  return {
    verdict,
    incidents: incidents.data && bySeverity(incidents.data.items),
    paused: paused.data?.items ?? [],
    is_stale: outage !== undefined,
  };
}
