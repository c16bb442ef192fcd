import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { CardList, NameLink, QueryState, Section, TextLine, Time } from "../../ui/index.ts";

const RECENT = 12;

/** The latest events of all robots, or of the robots of a site. */
export function RecentTimeline({ site_id }: { site_id?: string }) {
  const timeline = useQuery(query("listTimeline", { query: { ...(site_id === undefined ? {} : { site_id }), limit: RECENT } }));
  return (
    <Section title="Recent activity">
      <QueryState query={timeline}>
        {({ items }) => (
          <CardList items={items} empty="No activity yet" ordered>
            {({ id, at, robot_id, robot_name, summary }) => (
              <li key={id} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2 sm:flex-nowrap">
                <span className="w-24 shrink-0 text-xs text-muted">
                  <Time at={at} />
                </span>
                <NameLink to="/robots/$id" params={{ id: robot_id }} name={robot_name} className="max-w-[60%] shrink-0 sm:max-w-[35%]" />
                <TextLine className="text-muted max-sm:basis-full">{summary}</TextLine>
              </li>
            )}
          </CardList>
        )}
      </QueryState>
    </Section>
  );
}
