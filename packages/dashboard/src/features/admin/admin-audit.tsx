import type { BrowserClient } from "@roamfleet/sdk/browser";
import type { AuditEntry } from "@roamfleet/protocol/routes";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EmptyState, ListTable } from "../../ui/index.ts";
import { AUDIT_COLUMNS, AuditDetails } from "../audit/index.ts";

const PAGE_ROWS = 200;

/** The audit log of the service. Actions within an organization are in its own audit log. */
export function ServiceAudit({ client }: { client: BrowserClient }) {
  const [shown, setShown] = useState<AuditEntry>();
  const list = useInfiniteQuery({
    queryKey: ["admin", "audit"],
    queryFn: ({ pageParam, signal }) => client.listServiceAudit({ query: { limit: PAGE_ROWS, cursor: pageParam }, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  });
  return (
    <>
      <p className="mb-3 text-muted">Actions within an organization are in its own audit log.</p>
      <ListTable
        label="Service audit log"
        list={list}
        rowKey={({ id }) => id}
        columns={AUDIT_COLUMNS}
        onOpen={setShown}
        empty={<EmptyState title="No entries yet" />}
      />
      {shown !== undefined && <AuditDetails entry={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}
