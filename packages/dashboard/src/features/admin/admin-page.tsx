import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { ErrorState, Skeleton } from "../../ui/index.ts";
import { adminClient, refusalOf } from "./admin-client.ts";
import { AdminHome } from "./admin-home.tsx";
import { TokenForm } from "./token-form.tsx";

/** The page for administrators of the service. It has no session and asks for the admin token if the server requires one. */
export function AdminPage() {
  const [token, setToken] = useState<string>();
  // Each attempt creates a new client, even with the same token.
  const [tries, setTries] = useState(0);
  const client = useMemo(() => adminClient(token), [token]);
  const stats = useQuery({
    queryKey: ["admin", "stats", tries],
    queryFn: async ({ signal }) => (await client.getStats({ signal })).data,
    retry: false,
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
          ) : stats.isError ? (
            <ErrorState error={stats.error} onRetry={() => void stats.refetch()} />
          ) : (
            <Skeleton rows={6} />
          )}
        </div>
      </main>
    </div>
  );
}
