import { EmptyState, LinkButton, PageHeader } from "../ui/index.ts";

export function NotFoundPage() {
  return (
    <>
      <PageHeader title="Page not found" label="Page not found" />
      <EmptyState title="No page at this address" actions={<LinkButton to="/">Go to overview</LinkButton>}>
        The link may be incomplete, or from another version of Roamfleet.
      </EmptyState>
    </>
  );
}
