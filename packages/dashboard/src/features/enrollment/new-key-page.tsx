import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { EmptyState, LinkButton, PageHeader, Skeleton } from "../../ui/index.ts";
import { useMay } from "../../api/session.ts";
import { NewKeyForm } from "./new-key-form.tsx";
import { MadeKey } from "./made-key.tsx";

const route = getRouteApi("/app/enrollment/new");

/** Creates a key and shows it once, with the commands for the robot and the robots that enroll. */
export function NewKeyPage() {
  const { fleet_id } = route.useSearch();
  const may_change = useMay("operator");
  const { is_read } = usePlaces();
  const [made, setMade] = useState<NewEnrollmentKey>();
  return (
    <div className="max-w-4xl">
      <PageHeader
        title={made === undefined ? "Enroll robots" : "Run this on the robot"}
        label="Enrol robots"
        actions={made === undefined ? undefined : <LinkButton to="/enrollment">Done</LinkButton>}
      />
      {!may_change ? (
        <EmptyState title="You don't have access">Creating keys requires the operator role. Ask an admin of your organization.</EmptyState>
      ) : made !== undefined ? (
        <MadeKey made={made} />
      ) : is_read ? (
        <NewKeyForm fleet_id={fleet_id} onMade={setMade} />
      ) : (
        <Skeleton rows={6} />
      )}
    </div>
  );
}
