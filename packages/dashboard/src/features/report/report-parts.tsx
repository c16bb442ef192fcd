import type { Incident, ReportedChange, ReportedDeployment, ReportedRobots } from "@roamfleet/protocol/routes";
import { Link, type LinkProps } from "@tanstack/react-router";
import type { ComponentType, ReactNode } from "react";
import { usePlaces } from "../../api/queries.ts";
import { CardList, cx, DeploymentStatusBadge, plural, Text, TextLine, Time } from "../../ui/index.ts";
import { configName } from "../deployments/deployment-kind.ts";
import { IncidentStatusBadge, membersText, SeverityBadge } from "../incidents/incident-parts.tsx";

interface PartOf<T> {
  count: number;
  truncated: boolean;
  items: readonly T[];
}

/** The parts of a report under one heading. */
export function Group({
  title,
  empty,
  parts,
  children,
}: {
  title: string;
  empty: string;
  parts: readonly (PartOf<unknown> | null)[];
  children: ReactNode;
}) {
  const is_empty = parts.every((part) => part === null || part.count === 0);
  return (
    <section className="mb-8 min-w-0" aria-label={title}>
      <h2 className="mb-3 text-base font-semibold">{title}</h2>
      {is_empty ? <p className="text-muted">{empty}</p> : children}
    </section>
  );
}

/** One list of a report with its count; nothing if it is empty. */
export function Part<T>({ title, part, Item }: { title: string; part: PartOf<T>; Item: ComponentType<{ item: T }> }) {
  const { count, truncated, items } = part;
  if (count === 0) return null;
  const older = count - items.length;
  return (
    <div className="mb-5">
      <h3 className="mb-1.5 flex items-center gap-2 text-muted">
        {title}
        <span className="rounded bg-active px-1 text-xs text-ink tabular-nums">
          {count.toLocaleString()}
          {truncated && " or more"}
        </span>
      </h3>
      <CardList items={items.map((item, key) => ({ item, key }))}>
        {({ item, key }) => (
          <li key={key}>
            <Item item={item} />
          </li>
        )}
      </CardList>
      {older > 0 && <p className="mt-1 text-xs text-muted">{`and ${older.toLocaleString()} older`}</p>}
    </div>
  );
}

/** A row with a first line, a badge, and a second line with further text and the age. */
function Row({
  to,
  text,
  badge,
  more,
  at,
}: {
  to?: LinkProps | undefined;
  text: string;
  badge?: ReactNode;
  more?: string;
  at: string | null;
}) {
  const lines = (
    <>
      <span className="flex items-center justify-between gap-3">
        <Text className={cx("min-w-0", to !== undefined && "font-medium")}>{text}</Text>
        {badge !== undefined && <span className="shrink-0">{badge}</span>}
      </span>
      <span className="flex gap-1 text-xs text-muted tabular-nums">
        {more !== undefined && <TextLine>{more}</TextLine>}
        <span className="shrink-0">
          {more !== undefined && "· "}
          <Time at={at} />
        </span>
      </span>
    </>
  );
  if (to === undefined) return <div className="px-4 py-2">{lines}</div>;
  return (
    <Link {...to} className="block px-4 py-2 hover:bg-hover">
      {lines}
    </Link>
  );
}

export function DeploymentItem({ item }: { item: ReportedDeployment }) {
  const { id, kind, name, target_name, status, waiting_gate, counts, at } = item;
  return (
    <Row
      to={kind === "release" ? { to: "/deployments/$id", params: { id } } : { to: "/config-deployments/$id", params: { id } }}
      text={kind === "release" ? name : configName({ namespace: name === "all namespaces" ? null : name })}
      badge={<DeploymentStatusBadge deployment={{ status, awaiting_promotion: waiting_gate && status === "in_progress" }} />}
      more={
        counts.total === 0 ? target_name : `${target_name} · ${counts.applied.toLocaleString()} of ${counts.total.toLocaleString()} applied`
      }
      at={at}
    />
  );
}

export function IncidentItem({ item }: { item: Incident }) {
  const { id, title, severity, status, site_id, raised_at } = item;
  const site = usePlaces().site_names.get(site_id) ?? site_id;
  return (
    <Row
      to={{ to: "/incidents/$id", params: { id } }}
      text={title}
      badge={
        <span className="flex gap-1.5">
          <SeverityBadge severity={severity} />
          <IncidentStatusBadge status={status} />
        </span>
      }
      more={`${site} · ${membersText(item)}`}
      at={raised_at}
    />
  );
}

/** Returns the page that lists the robots of a group: the robot itself, the deployment that failed, or the robots of the site. */
function robotsLink({ kind, site_id, deployment_id, robot_count, robot_id }: ReportedRobots): LinkProps {
  if (robot_count === 1) return { to: "/robots/$id", params: { id: robot_id } };
  if (deployment_id !== null)
    return kind === "install_failed"
      ? { to: "/deployments/$id", params: { id: deployment_id } }
      : { to: "/config-deployments/$id", params: { id: deployment_id } };
  if (kind === "failing") return { to: "/robots", search: { site_id, health: "failing" } };
  return { to: "/robots", search: { site_id, ...(kind === "offline" || kind === "went_offline" ? { status: "offline" } : {}) } };
}

export function RobotsItem({ item }: { item: ReportedRobots }) {
  const { robot_count, robot_name, summary, at } = item;
  const more = robot_count === 1 ? {} : { more: `${robot_count.toLocaleString()} ${plural(robot_count, "robot")}, newest ${robot_name}` };
  return <Row to={robotsLink(item)} text={summary} {...more} at={at} />;
}

const OBJECT_PAGES: Record<string, "/releases/$id" | "/configs/$id"> = {
  createRelease: "/releases/$id",
  setConfig: "/configs/$id",
  rollBackConfig: "/configs/$id",
};

export function ChangeItem({ item }: { item: ReportedChange }) {
  const { actor, action, object_id, summary, at } = item;
  const to = OBJECT_PAGES[action];
  return (
    <Row
      to={to === undefined || object_id === null ? undefined : { to, params: { id: object_id } }}
      text={summary}
      more={`by ${actor.name ?? actor.id ?? actor.type}`}
      at={at}
    />
  );
}
