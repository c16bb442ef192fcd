import type { ReactNode } from "react";
import { LinkTabs, PageHeader } from "../../ui/index.ts";

/** The header and tabs of all config pages. */
export function ConfigsFrame({ label, actions, children }: { label: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <>
      <PageHeader title="Configs" label={label} actions={actions} />
      <LinkTabs
        label="Configs"
        tabs={[
          { label: "Values", link: { to: "/configs" } },
          { label: "Drift", link: { to: "/configs/drift", search: { state: "drifted" } } },
          { label: "Schemas", link: { to: "/configs/schemas" } },
        ]}
      />
      {children}
    </>
  );
}
