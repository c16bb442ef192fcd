import type { AppVersions } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { Card, Meter, QueryState, Section, TextLine } from "../../ui/index.ts";
import { type OverviewScope, useFleetOverview } from "./use-fleet-overview.ts";

/** How many robots run which release of each app, in the org, a site or a fleet. */
export function VersionMix({ scope = {} }: { scope?: OverviewScope }) {
  const overview = useFleetOverview(scope);
  return (
    <Section title="Versions">
      <QueryState query={overview} rows={3}>
        {({ data: { apps } }) =>
          apps.length === 0 ? (
            <p className="text-muted">No releases installed yet</p>
          ) : (
            <div className="grid [grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr))] gap-3">
              {apps.map((app) => (
                <AppMix key={app.app} app={app} scope={scope} />
              ))}
            </div>
          )
        }
      </QueryState>
    </Section>
  );
}

const ROW = "grid grid-cols-[minmax(0,2fr)_minmax(3rem,3fr)_6rem] items-center gap-3 px-4";

function AppMix({ app: { app, total, versions }, scope }: { app: AppVersions; scope: OverviewScope }) {
  const others = total - versions.reduce((sum, { count }) => sum + count, 0);
  return (
    <Card className="!p-0">
      <h3 className="flex items-baseline justify-between gap-3 border-b border-line px-4 py-2">
        <TextLine className="font-medium">{app}</TextLine>
        <span className="shrink-0 text-xs font-normal text-muted tabular-nums">on {total.toLocaleString()}</span>
      </h3>
      <ul className="py-1">
        {versions.map(({ release_id, tag, count }) => (
          <li key={release_id}>
            <Link to="/robots" search={{ ...scope, release_id }} className={`${ROW} min-h-8 hover:bg-hover`}>
              <TextLine>{tag === "" ? "deleted release" : tag}</TextLine>
              <Share name={tag} count={count} total={total} />
            </Link>
          </li>
        ))}
        {others > 0 && (
          <li className={`${ROW} min-h-8 text-muted`}>
            <span>other releases</span>
            <Share name="other releases" count={others} total={total} />
          </li>
        )}
      </ul>
    </Card>
  );
}

function Share({ name, count, total }: { name: string; count: number; total: number }) {
  const percent = Math.round((100 * count) / Math.max(1, total));
  return (
    <>
      <Meter label={`Robots with ${name.slice(0, 80)}`} value={count} max={Math.max(1, total)} tone="info" />
      <span className="text-right text-xs whitespace-nowrap tabular-nums">
        {count.toLocaleString()} <span className="text-muted">({percent}%)</span>
      </span>
    </>
  );
}
