import type { Body } from "@roamfleet/sdk";
import { requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { readTime, relative, type TimeOption } from "../duration.ts";
import { line } from "../text.ts";
import { deploymentStatus } from "../waves.ts";

type Report = Body<"getReport">["data"];
type Deployment = Report["open"]["deployments"]["items"][number];
type Change = Report["changed"]["releases"]["items"][number];
type Incident = Report["open"]["incidents"]["items"][number];

export const report = requestCommand(
  "Show what changed, what broke and what is open, for the start or end of a shift. Robots of a site are one line.",
  (command) =>
    command.option(
      "--since <time>",
      "Start of the report: an age such as 8h or 2d, or an RFC 3339 time; at most 7 days ago (default: 8h)",
      readTime,
    ),
  (client, { now }, { since }: { since?: TimeOption }) => client.getReport({ query: { since: since?.(now()) } }),
  ({ data }, context) => show(data, context),
  ["rf report --since 8h", "rf report --since 2030-01-01T06:00:00Z"],
);

interface Part<T> {
  count: number;
  truncated: boolean;
  items: readonly T[];
}

function show({ since, changed, broken, open }: Report, { out, now }: Context): void {
  const section = (title: string, parts: readonly (readonly string[])[]): void => {
    out.line(`\n${out.paint("strong", title).rendered}`);
    const lines = parts.flat();
    for (const text of lines.length === 0 ? ["Nothing"] : lines) out.line(`  ${text}`);
  };
  /** Returns a heading with the count, and the items with their age; nothing for an empty part. */
  const part = <T extends { at: string | null }>(
    title: string,
    { count, truncated, items }: Part<T>,
    text: (item: T) => string,
  ): string[] => {
    if (count === 0) return [];
    const lines = items.map((item) => `  ${out.paint("quiet", relative(item.at, now())).rendered}  ${text(item)}`);
    const more = count - items.length;
    return [
      line`${title}: ${count.toLocaleString("en")}${truncated ? " or more" : ""}`,
      ...lines,
      ...(more > 0 ? [`  and ${more.toLocaleString("en")} older`] : []),
    ];
  };
  const summary = (item: { summary: string }): string => line`${item.summary}`;
  const change = ({ summary, actor }: Change): string => line`${summary} by ${actor.name ?? actor.id ?? actor.type}`;
  const deployment = ({ id, kind, name, target_name, status, reason, waiting_gate, counts }: Deployment): string =>
    line`${kind === "config" ? "config " : ""}${name} to ${target_name}: ${deploymentStatus(out, { status, awaiting_promotion: waiting_gate })}${counts.total === 0 ? "" : `, ${counts.applied.toLocaleString("en")} of ${counts.total.toLocaleString("en")} applied`}${reason === null ? "" : ` (${reason})`} ${out.paint("quiet", id)}`;
  const incident = ({ id, title, severity, status, active_count, member_count }: Incident): string =>
    line`${title}: ${severity}, ${out.status(status)}, ${active_count} of ${member_count} active ${out.paint("quiet", id)}`;
  const raised = ({ count, truncated, items }: Report["open"]["incidents"]) => ({
    count,
    truncated,
    items: items.map((item) => ({ ...item, at: item.raised_at })),
  });

  out.line(line`Report since ${since} (${relative(since, now())})`);
  section("What changed", [
    part("Deployments started", changed.started_deployments, deployment),
    part("Deployments finished", changed.finished_deployments, deployment),
    part("Releases", changed.releases, change),
    part("Configs", changed.configs, change),
    changed.people === null ? [] : part("People and settings", changed.people, change),
  ]);
  section("What broke", [
    part("Incidents", raised(broken.incidents), incident),
    part("Failed deployments", broken.deployments, deployment),
    part("Groups of robots", broken.robots, summary),
  ]);
  section("What is open", [
    part("Incidents", raised(open.incidents), incident),
    part("Deployments", open.deployments, deployment),
    part("Groups of robots", open.robots, summary),
  ]);
}
