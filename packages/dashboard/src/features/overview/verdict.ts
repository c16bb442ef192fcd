import type { Deployment, Incident, Overview } from "@roamfleet/protocol/routes";
import { counted } from "../../ui/format.ts";
import type { Tone } from "../../ui/status.tsx";

/** A page of the dashboard, as arguments of a link. */
export interface Destination {
  to: string;
  params?: Record<string, string>;
  search?: object;
}

/** Something that differs from the normal state. */
export interface Finding {
  /** bad: something is broken. warn: someone must look at it or decide. */
  tone: "bad" | "warn";
  text: string;
  /** When it last changed, as RFC 3339. */
  at?: string | null;
  link: Destination;
}

export interface Verdict {
  tone: Tone;
  title: string;
  /** The most severe findings first. */
  findings: readonly Finding[];
  /** States what could not be loaded: there may be further findings. */
  gap?: string;
}

export interface VerdictFacts {
  overview: Overview;
  /** Unresolved incidents, newest first; undefined: unknown. */
  incidents: readonly Incident[] | undefined;
  /** Whether there are more unresolved incidents. */
  has_more_incidents: boolean;
  /** Failed deployments, newest first; undefined: unknown. */
  failed: readonly Deployment[] | undefined;
  /** Paused deployments, newest first; undefined: unknown. */
  paused: readonly Deployment[] | undefined;
  /** True while the undefined lists are still loading; false if loading them failed. */
  is_loading: boolean;
  /** When the data was loaded, if the server does not respond now. */
  stale_since_ms: number | undefined;
  now_ms: number;
}

/** From this share of offline robots on, a cause that they have in common is likely: a site, a network or the server. */
const MASS_OFFLINE = 0.1;
const DAY_MS = 86_400_000;

/** Computes whether anything is wrong, in one sentence and as findings. Pure. */
export function verdictOf(facts: VerdictFacts): Verdict {
  const { overview, stale_since_ms, is_loading } = facts;
  const unknown = unknownText(facts);
  const findings = [...robotFindings(overview.robots), ...incidentFindings(facts), ...deploymentFindings(facts)].toSorted(
    (a, b) => Number(b.tone === "bad") - Number(a.tone === "bad"),
  );
  const bad = findings.filter(({ tone }) => tone === "bad").length;
  const gap = unknown === "" || is_loading ? {} : { gap: `Not loaded: ${unknown}. There may be more problems.` };
  if (stale_since_ms !== undefined)
    return { tone: bad > 0 ? "bad" : "warn", title: "Out of date: the server is not responding", findings, ...gap };
  const [first] = findings;
  if (first !== undefined)
    return {
      tone: bad > 0 ? "bad" : "warn",
      title: `${bad > 0 ? counted(bad, "problem") : "Needs attention"}: ${first.text}`,
      findings,
      ...gap,
    };
  // Green requires that everything is known.
  if (unknown !== "") return { tone: "idle", title: is_loading ? `Loading ${unknown}` : "Not all data could be loaded", findings, ...gap };
  return { tone: overview.robots.online === 0 ? "idle" : "ok", title: okTitle(overview.robots), findings };
}

const unknownText = ({ incidents, failed, paused }: VerdictFacts): string =>
  [incidents === undefined && "incidents", failed === undefined && "failed deployments", paused === undefined && "paused deployments"]
    .filter((name) => name !== false)
    .join(", ");

type Robots = Overview["robots"];

function okTitle({ total, online, never_connected }: Robots): string {
  if (online === 0) return `${counted(total, "robot")} enrolled, none has connected yet`;
  const others = never_connected === 0 ? "" : `, ${never_connected.toLocaleString()} never connected`;
  return `No problems: ${online === 1 ? "1 robot" : `all ${counted(online, "robot")}`} online${others}`;
}

const share = (count: number, total: number): string =>
  `${count.toLocaleString()} of ${counted(total, "robot")} ${count === 1 ? "is" : "are"}`;

function robotFindings({
  total,
  online,
  offline,
  never_connected,
  unhealthy,
  failed,
  drifted,
  held,
  lost,
  last_lost_at,
}: Robots): Finding[] {
  const known = total - never_connected;
  const is_mass = online === 0 || (offline > 1 && offline >= MASS_OFFLINE * known);
  const recent = lost === 0 || lost === offline ? "" : `, ${lost.toLocaleString()} of them for less than 1 h`;
  return [
    offline > 0 && {
      tone: is_mass ? ("bad" as const) : ("warn" as const),
      text: `${share(offline, total)} offline${recent}`,
      at: last_lost_at,
      link: { to: "/robots", search: { status: "offline" } },
    },
    unhealthy > 0 && {
      tone: "bad" as const,
      text: `${share(unhealthy, total)} unhealthy`,
      link: { to: "/robots", search: { health: "failing" } },
    },
    failed > 0 && {
      tone: "bad" as const,
      text: `The last update failed on ${counted(failed, "robot")}`,
      link: { to: "/robots", search: { release_state: "failed" } },
    },
    held > 0 && {
      tone: "bad" as const,
      text: `${counted(held, "robot")} quarantined: several machines use the same identity`,
      link: { to: "/robots" },
    },
    drifted > 0 && {
      tone: "warn" as const,
      text: `${counted(drifted, "robot")} with a changed config file`,
      link: { to: "/configs/drift" },
    },
  ].filter((finding) => finding !== false);
}

function incidentFindings({ incidents = [], has_more_incidents }: VerdictFacts): Finding[] {
  return (["critical", "warning", "info"] as const).flatMap((severity) => {
    const found = incidents.filter((incident) => incident.severity === severity);
    const [newest] = found;
    if (newest === undefined) return [];
    const acknowledged = found.filter(({ status }) => status === "acknowledged").length;
    const more = has_more_incidents ? " or more" : "";
    return {
      tone: severity === "critical" ? ("bad" as const) : ("warn" as const),
      text: `${found.length}${more} ${severity} ${found.length === 1 ? "incident" : "incidents"}${acknowledged === 0 ? "" : `, ${acknowledged} acknowledged`}`,
      at: newest.raised_at,
      link:
        found.length === 1
          ? { to: "/incidents/$id", params: { id: newest.id } }
          : { to: "/incidents", search: { state: "unresolved", severity } },
    };
  });
}

function deploymentFindings({ overview: { deployments, config_deployments }, failed = [], paused = [], now_ms }: VerdictFacts): Finding[] {
  const [failure] = failed;
  const failed_at = failure?.finished_at ?? null;
  const is_recent = failed_at === null || now_ms - Date.parse(failed_at) < DAY_MS;
  return [
    deployments.failed > 0 && {
      tone: is_recent ? ("bad" as const) : ("warn" as const),
      text: `${counted(deployments.failed, "deployment")} failed in 7 days`,
      at: failed_at,
      link:
        deployments.failed === 1 && failure !== undefined
          ? { to: "/deployments/$id", params: { id: failure.id } }
          : { to: "/deployments", search: { status: "failed", since: deployments.failed_since } },
    },
    deployments.paused > 0 && {
      tone: "warn" as const,
      text: `${counted(deployments.paused, "deployment")} paused`,
      at: paused[0]?.paused_at ?? null,
      link: { to: "/deployments", search: { status: "paused" } },
    },
    deployments.waiting_gate > 0 && {
      tone: "warn" as const,
      text: `${counted(deployments.waiting_gate, "deployment")} awaiting promotion`,
      link: { to: "/deployments", search: { status: "in_progress" } },
    },
    config_deployments.paused > 0 && {
      tone: "warn" as const,
      text: `${counted(config_deployments.paused, "config deployment")} paused`,
      link: { to: "/deployments", search: { tab: "configs", status: "paused" } },
    },
    config_deployments.waiting_gate > 0 && {
      tone: "warn" as const,
      text: `${counted(config_deployments.waiting_gate, "config deployment")} awaiting promotion`,
      link: { to: "/deployments", search: { tab: "configs", status: "in_progress" } },
    },
  ].filter((finding) => finding !== false);
}
