import type { ReactNode } from "react";
import { useMay } from "../../api/session.ts";
import { EmptyState, LinkTabs, PageHeader } from "../../ui/index.ts";

/** The header of the users and tokens pages, which are for admins only. */
export function PeoplePage({ label, actions, children }: { label: string; actions: ReactNode; children: ReactNode }) {
  const is_admin = useMay("admin");
  return (
    <>
      <PageHeader title="Users and tokens" label={label} actions={is_admin && actions} />
      <LinkTabs
        label="Users and tokens"
        tabs={[
          { label: "Users", link: { to: "/users" } },
          { label: "Tokens", link: { to: "/users/tokens" } },
        ]}
      />
      {is_admin ? (
        children
      ) : (
        <EmptyState title="You don't have access">Only admins of the whole organization can manage users and tokens.</EmptyState>
      )}
    </>
  );
}
