import type { AuditEntry, Stats } from "@roamfleet/protocol/routes";
import type { BrowserClient } from "@roamfleet/sdk/browser";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { RefreshCw } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import {
  Button,
  byteText,
  Card,
  Command,
  cx,
  EmptyState,
  ListActions,
  ListTable,
  PageHeader,
  plural,
  QueryState,
  TextInput,
} from "../../ui/index.ts";
import { mayPass } from "../../api/query-client.ts";
import { AUDIT_COLUMNS, AuditDetails } from "../audit/audit-entries.tsx";
import { adminClient, adminLines, type Refusal, refusalOf, useAdminPages } from "./admin-client.ts";
import { NewOrg, Orgs } from "./orgs.tsx";

const RETRY_MS = 5_000;

/** The page for administrators of the service. It has no session and asks for the admin token if the server requires one. */
export function AdminPage() {
  const [token, setToken] = useState<string>();
  // Counts the attempts to sign in. Each creates a new client, even with the same token.
  const [tries, setTries] = useState(0);
  const client = useMemo(() => adminClient(token), [token]);
  const stats = useQuery({
    queryKey: ["admin", "stats", tries],
    queryFn: async ({ signal }) => (await client.getStats({ signal })).data,
    retry: false,
    refetchInterval: ({ state }) => mayPass(state.error) && RETRY_MS,
  });
  const refusal = refusalOf(stats.error);
  return (
    <div className="flex h-full flex-col">
      <header className="flex h-12 shrink-0 items-center justify-between gap-3 border-b border-line bg-sunken px-4">
        <Link to="/admin" className="flex items-center gap-2 font-semibold">
          <img src="/icon.svg" alt="" width={24} height={24} />
          Service admin
        </Link>
        <Link to="/" className="text-accent underline">
          Go to dashboard
        </Link>
      </header>
      <main className="min-h-0 flex-1 overflow-x-hidden overflow-y-auto p-4 md:p-6">
        <div className="mx-auto max-w-5xl">
          {stats.data !== undefined ? (
            <AdminHome client={client} stats={stats.data} />
          ) : refusal !== undefined ? (
            <TokenForm
              refusal={refusal}
              message={token === undefined && refusal === "token_needed" ? undefined : stats.error?.message}
              busy={stats.isFetching}
              onToken={(given) => {
                setToken(given);
                setTries(tries + 1);
              }}
            />
          ) : (
            <>
              <PageHeader title="Service admin" label="Service admin" />
              <QueryState query={stats} rows={6}>
                {() => null}
              </QueryState>
            </>
          )}
        </div>
      </main>
    </div>
  );
}

interface Parts {
  refusal: Refusal;
  /** The server's error for the last attempt. */
  message: string | undefined;
  busy: boolean;
  onToken: (token: string) => void;
}

/** Asks for the admin token from the server's configuration, which differs from tokens of organizations and users. */
function TokenForm({ refusal, message, busy, onToken }: Parts) {
  const [token, setToken] = useState("");
  return (
    <div className="mx-auto max-w-md pt-8">
      <PageHeader
        title="Service admin"
        label="Service admin"
        meta="For the administrators of this server: create, approve and suspend organizations."
      />
      <Card>
        {refusal === "elsewhere" ? (
          <div className="space-y-3">
            <p role="alert">{message}.</p>
            <p className="text-muted">Open this page on the server's machine, or start the server with a token:</p>
            <Command>{"SERVICE_ADMIN_TOKEN=$(openssl rand -hex 32) roamfleet serve …"}</Command>
          </div>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (token.trim() !== "") onToken(token.trim());
            }}
          >
            <TextInput
              label="Admin token"
              type="password"
              autoComplete="off"
              autoFocus
              spellCheck={false}
              required
              value={token}
              onValue={setToken}
              hint="The server's SERVICE_ADMIN_TOKEN. It is kept in memory until you leave this page."
              error={message}
            />
            <Button look="primary" type="submit" className="w-full" busy={busy}>
              Continue
            </Button>
          </form>
        )}
      </Card>
    </div>
  );
}

const route = getRouteApi("/admin");

/** The admin page after authentication. */
function AdminHome({ client, stats }: { client: BrowserClient; stats: Stats }) {
  const { tab = "orgs", status } = route.useSearch();
  const queries = useQueryClient();
  return (
    <>
      <PageHeader
        title="Service admin"
        label="Service admin"
        actions={
          <>
            <Button icon={RefreshCw} onClick={() => void queries.invalidateQueries({ queryKey: ["admin"] })}>
              Refresh
            </Button>
            <ListActions
              verb="New organization"
              renderDialog={(close) => <NewOrg client={client} onClose={close} />}
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
      <Figure label={plural(orgs.total, "organization")} value={orgs.total.toLocaleString()} />
      <Figure
        label={`pending ${plural(orgs.pending, "request")}`}
        value={orgs.pending.toLocaleString()}
        tone={orgs.pending > 0 ? "text-warn" : ""}
      />
      <Figure label="suspended" value={orgs.suspended.toLocaleString()} />
      <Figure label="robots online" value={`${robots.online.toLocaleString()} of ${robots.total.toLocaleString()}`} />
      <Figure label={`${plural(deployments.running, "deployment")} running`} value={deployments.running.toLocaleString()} />
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

/** The audit log of the service. Actions within an organization are in its own audit log. */
function ServiceAudit({ client }: { client: BrowserClient }) {
  const [shown, setShown] = useState<AuditEntry>();
  const list = useAdminPages(["audit"], (cursor, signal) => client.listServiceAudit({ query: { limit: 200, cursor }, signal }));
  return (
    <>
      <p className="mb-3 text-muted">Actions within an organization are in its own audit log.</p>
      <ListTable
        label="Service audit log"
        list={list}
        columns={AUDIT_COLUMNS}
        onOpen={setShown}
        empty={<EmptyState title="No entries yet" />}
      />
      {shown !== undefined && <AuditDetails entry={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}
