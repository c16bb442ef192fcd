import type { Deployment } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { ArrowRight } from "lucide-react";
import { query } from "../../api/queries.ts";
import { durationText, hasFailed, Text, useNow, useOutage } from "../../ui/index.ts";
import { paceOf } from "./deployment-text.ts";

/** The elapsed time of a deployment, and an estimate of the time left. */
export function Pace({ deployment }: { deployment: Deployment }) {
  const now = useNow();
  const outage = useOutage();
  // Whether the deployment still runs is not known during an outage.
  const pace = paceOf(deployment, outage?.since_ms ?? Math.max(now, Date.now()));
  if (pace === undefined) return null;
  const { elapsed, left } = pace;
  return (
    <>
      {deployment.finished_at === null
        ? `${outage === undefined ? "running" : "had been running"} for ${durationText(elapsed)}`
        : `took ${durationText(elapsed)}`}
      {left !== undefined && `, about ${durationText(left)} left`} ·
    </>
  );
}

/** Robots whose previous release is read. More would say little more. */
const ROBOTS_READ = 20;
const RELEASES_SHOWN = 2;

/** The releases that the robots ran before, and the one they get. */
export function FromTo({ deployment: { id, release }, tag }: { deployment: Deployment; tag: string }) {
  const targets = useQuery(query("listDeploymentTargets", { params: { id }, query: { limit: ROBOTS_READ } }));
  const before = [...new Set((targets.data?.items ?? []).map(({ previous_release_id }) => previous_release_id))].filter(
    (one) => one !== null,
  );
  const releases = useQueries({
    queries: before.slice(0, RELEASES_SHOWN).map((release_id) => query("getRelease", { params: { id: release_id } })),
  });
  const names = releases.map(({ data }) => data?.data.tag).filter((name) => name !== undefined);
  return (
    <span className="inline-flex min-w-0 flex-wrap items-center gap-x-1.5">
      <span>app {release.app}:</span>
      {[targets, ...releases].some((one) => hasFailed({ ...one, errorUpdateCount: 0 })) && <span>(previous release not loaded)</span>}
      {names.length > 0 && (
        <>
          <Text>{`${names.join(", ")}${before.length > RELEASES_SHOWN ? " and others" : ""}`}</Text>
          <ArrowRight size={12} aria-label="to" className="shrink-0" />
        </>
      )}
      <Text>{tag}</Text>
    </span>
  );
}
