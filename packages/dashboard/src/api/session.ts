import type { Me, Session } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk/browser";
import { queryOptions, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, holdCsrfToken } from "./client.ts";
import { query } from "./queries.ts";
import { queryClient } from "./query-client.ts";

export type Role = Me["org"]["role"];
const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

interface SignedIn {
  session: Session;
  me: Me;
}

/** The session. Read once, and again when the window gets focus: another tab may have signed in as someone else, or signed out. */
const SESSION = queryOptions({
  queryKey: ["getSession"],
  queryFn: async () => {
    const { data } = await api.getSession();
    holdCsrfToken(data.csrf_token ?? undefined);
    return data;
  },
  staleTime: Infinity,
  refetchOnWindowFocus: "always",
  retry: false,
});

/** Refreshes the session while the frame of all pages is shown. */
export function useFreshSession(): void {
  const { refetch } = useQuery(SESSION);
  // React Query refetches when the page becomes visible. A window beside another window is always visible, so refresh also when the window
  // gets focus.
  useEffect(() => {
    const refresh = (): void => void refetch({ cancelRefetch: false });
    window.addEventListener("focus", refresh);
    return () => window.removeEventListener("focus", refresh);
  }, [refetch]);
}

/** Returns the session and the user; undefined if signed out. Throws if the server does not respond. */
export async function readSession(): Promise<SignedIn | undefined> {
  try {
    // Cached data is enough, so that loaded pages stay usable while the server does not respond. The frame of all pages refreshes it.
    const session = await queryClient.ensureQueryData(SESSION);
    const { data: me } = await queryClient.ensureQueryData(query("getMe"));
    return { session, me };
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return undefined;
    throw error;
  }
}

/** Exchanges a token for a session cookie that scripts cannot read. The token is not stored. */
export async function signIn(token: string): Promise<void> {
  const response = await api.request("POST", "/api/auth/session", { headers: { authorization: `Bearer ${token}` }, body: {} });
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw new ApiError({ status: response.status, headers: response.headers, body });
  holdCsrfToken((body as { data: Session }).data.csrf_token ?? undefined);
  queryClient.clear();
}

export async function signOut(): Promise<void> {
  await api.request("DELETE", "/api/auth/session");
  holdCsrfToken(undefined);
  queryClient.clear();
}

export async function changeOrg(org_id: string): Promise<void> {
  const { data } = await api.updateSession({ body: { org_id } });
  holdCsrfToken(data.csrf_token ?? undefined);
  queryClient.clear();
}

/** Returns the signed-in user or token. For pages that require a session. */
export const useMe = (): Me => useSuspenseQuery(query("getMe")).data.data;

/** Whether the session has at least this role. The server enforces roles; pages only hide actions that it would refuse. */
export function useMay(role: Role): boolean {
  return RANK[useMe().org.role] >= RANK[role];
}

/** Whether the session has at least this role in the whole organization, not only in some sites or fleets. */
export function useMayInWholeOrg(role: Role): boolean {
  const { org, scopes } = useMe();
  return RANK[org.role] >= RANK[role] && scopes.length === 0;
}
