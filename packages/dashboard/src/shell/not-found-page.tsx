import { EmptyState, LinkButton, PageHeader } from "../ui/index.ts";

export function NotFoundPage() {
  return (
    <>
      <PageHeader title="No such page" label="No such page" />
      <EmptyState title="Nothing is at this address" actions={<LinkButton to="/">To the overview</LinkButton>}>
        The link may be of another version of Roamfleet, or cut off.
      </EmptyState>
    </>
  );
}
