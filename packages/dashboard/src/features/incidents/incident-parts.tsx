import type { Incident } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleDot, CircleX, Eye, TriangleAlert } from "lucide-react";
import { type Places, usePlaces } from "../../api/queries.ts";
import { Badge, CardList, Text, TextLine, Time } from "../../ui/index.ts";

const SEVERITIES = {
  critical: { tone: "bad", icon: CircleX },
  warning: { tone: "warn", icon: TriangleAlert },
  info: { tone: "info", icon: CircleDot },
} as const;

export function SeverityBadge({ severity }: Pick<Incident, "severity">) {
  const { tone, icon } = SEVERITIES[severity];
  return (
    <Badge tone={tone} icon={icon}>
      {severity}
    </Badge>
  );
}

const SEVERITY_ORDER = Object.keys(SEVERITIES);

/** Sorts incidents by severity, the most severe first. Incidents of the same severity keep their order. */
export const bySeverity = (incidents: readonly Incident[]): Incident[] =>
  incidents.toSorted((a, b) => SEVERITY_ORDER.indexOf(a.severity) - SEVERITY_ORDER.indexOf(b.severity));

const STATUSES = {
  open: { tone: "bad", icon: CircleDot },
  acknowledged: { tone: "info", icon: Eye },
  resolved: { tone: "ok", icon: CircleCheck },
} as const;

export function IncidentStatusBadge({ status }: Pick<Incident, "status">) {
  const { tone, icon } = STATUSES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {status}
    </Badge>
  );
}

/** Whether the members of an incident are deployments. Otherwise they are robots. */
export const isDeployment = (subject_id: string): boolean => /^c?dep_/.test(subject_id);

/** Names the only affected robot, or else formats the number of members: "3 of 1,002 still affected". */
export function membersText({ active_count, member_count, status, robot_name }: Incident): string {
  if (status === "resolved" || active_count === 0) return `${member_count.toLocaleString()} affected in total`;
  if (robot_name !== null) return robot_name;
  return active_count === member_count
    ? `${active_count.toLocaleString()} affected`
    : `${active_count.toLocaleString()} of ${member_count.toLocaleString()} still affected`;
}

/** Formats the place of an incident: "Rotterdam, hall 2 · Picking carts". */
export function placeText({ site_id, fleet_id }: Pick<Incident, "site_id" | "fleet_id">, { site_names, fleet_names }: Places): string {
  const site = site_names.get(site_id);
  const fleet = fleet_id === null ? undefined : fleet_names.get(fleet_id);
  return [site, fleet].filter((name) => name !== undefined).join(" · ");
}

/** Incidents as a list of links. */
export function IncidentList({ incidents, empty }: { incidents: readonly Incident[]; empty: string }) {
  const places = usePlaces();
  return (
    <CardList items={incidents} empty={empty}>
      {(incident) => (
        <li key={incident.id}>
          <Link
            to="/incidents/$id"
            params={{ id: incident.id }}
            className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 hover:bg-hover"
          >
            {/* As wide as the widest badge, so that all titles are aligned. */}
            <span className="w-20 shrink-0">
              <SeverityBadge severity={incident.severity} />
            </span>
            <span className="min-w-0 flex-[1_1_11rem]">
              <TextLine className="font-medium">{incident.title}</TextLine>
              {/* Narrow screens show the whole text in several lines. */}
              <Text className="block text-xs text-muted [overflow-wrap:anywhere] sm:truncate">
                {[placeText(incident, places), membersText(incident), incident.assignee_name ?? ""]
                  .filter((part) => part !== "")
                  .join(" · ")}
              </Text>
            </span>
            {/* On narrow screens below the title. */}
            <span className="flex items-center gap-3 max-sm:basis-full max-sm:pl-[5.75rem]">
              <IncidentStatusBadge status={incident.status} />
              <span className="w-20 shrink-0 text-xs text-muted sm:text-right">
                <Time at={incident.raised_at} />
              </span>
            </span>
          </Link>
        </li>
      )}
    </CardList>
  );
}
