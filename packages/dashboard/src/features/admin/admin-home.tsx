import type { BrowserClient } from "@roamfleet/sdk/browser";
import type { Stats } from "@roamfleet/protocol/routes";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { RefreshCw } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Button, byteText, cx, ListActions, PageHeader } from "../../ui/index.ts";
import { adminLines } from "./admin-lines.ts";
import { NewOrg } from "./new-org.tsx";
import { Orgs } from "./orgs.tsx";
import { ServiceAudit } from "./admin-audit.tsx";

const route = getRouteApi("/admin");

/** The admin page after authentication. */
export function AdminHome({ client, stats }: { client: BrowserClient; stats: Stats }) {
  const { tab = "orgs", status } = route.useSearch();
  const queries = useQueryClient();
  const [is_making, setMaking] = useState(false);
  return (
    <>
      <PageHeader
        title="Service admin"
        label="Service admin"
        actions={
          <>
            <Button icon={<RefreshCw size={14} aria-hidden />} onClick={() => void queries.invalidateQueries({ queryKey: ["admin"] })}>
              Refresh
            </Button>
            <ListActions
              verb="New organization"
              onMake={() => setMaking(true)}
              command={tab === "orgs" ? adminLines.list : adminLines.audit}
            />
          </>
        }
      />
      <Figures stats={stats} />
      <nav aria-label="Service admin" className="mb-4 flex gap-1 border-b border-line">
        <TabLink tab="orgs" shown={tab}>
          Organizations
        </TabLink>
        <TabLink tab="audit" shown={tab}>
          Audit log
        </TabLink>
      </nav>
      {tab === "orgs" ? <Orgs client={client} status={status} /> : <ServiceAudit client={client} />}
      {is_making && <NewOrg client={client} onClose={() => setMaking(false)} />}
    </>
  );
}

function TabLink({ tab, shown, children }: { tab: "orgs" | "audit"; shown: string; children: ReactNode }) {
  const is_here = tab === shown;
  return (
    <Link
      to="/admin"
      search={{ tab }}
      aria-current={is_here ? "page" : undefined}
      className={cx(
        "flex h-9 items-center border-b-2 px-2.5",
        is_here ? "border-accent font-medium text-ink" : "border-transparent text-muted hover:text-ink",
      )}
    >
      {children}
    </Link>
  );
}

function Figures({ stats: { orgs, robots, deployments, database } }: { stats: Stats }) {
  return (
    <dl className="mb-6 grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
      <Figure label="orgs" value={orgs.total.toLocaleString()} />
      <Figure label="requests" value={orgs.pending.toLocaleString()} tone={orgs.pending > 0 ? "text-warn" : ""} />
      <Figure label="suspended" value={orgs.suspended.toLocaleString()} />
      <Figure label="robots online" value={`${robots.online.toLocaleString()} of ${robots.total.toLocaleString()}`} />
      <Figure label="deployments running" value={deployments.running.toLocaleString()} />
      <Figure label="database" value={byteText(database.size_bytes)} />
    </dl>
  );
}

function Figure({ label, value, tone = "" }: { label: string; value: string; tone?: string }) {
  return (
    <div className="flex flex-col-reverse rounded-lg border border-line bg-raised px-4 py-3">
      <dt className="text-xs text-muted">{label}</dt>
      <dd className={cx("text-xl font-semibold tabular-nums", tone)}>{value}</dd>
    </div>
  );
}
