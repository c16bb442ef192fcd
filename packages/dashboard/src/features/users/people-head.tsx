import type { ReactNode } from "react";
import { useMay } from "../../api/session.ts";
import { EmptyState, LinkTabs, PageHeader } from "../../ui/index.ts";

/** Head of the pages of users and of tokens; both are the admins' alone. */
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
        <EmptyState title="Your role does not reach here">Users and tokens are for admins of the whole org.</EmptyState>
      )}
    </>
  );
}
