import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { EmptyState, LinkButton, PageHeader, Skeleton } from "../../ui/index.ts";
import { useMay } from "../../api/session.ts";
import { NewKeyForm } from "./new-key-form.tsx";
import { MadeKey } from "./made-key.tsx";

const route = getRouteApi("/app/enrollment/new");

/** Makes a key, shows it this once with the line for the robot, and then the robots as they come. */
export function NewKeyPage() {
  const { fleet_id } = route.useSearch();
  const may_change = useMay("operator");
  const { is_read } = usePlaces();
  const [made, setMade] = useState<NewEnrollmentKey>();
  return (
    <div className="max-w-4xl">
      <PageHeader
        title={made === undefined ? "Enrol robots" : "Run this on the robot"}
        label="Enrol robots"
        actions={made === undefined ? undefined : <LinkButton to="/enrollment">Done</LinkButton>}
      />
      {!may_change ? (
        <EmptyState title="Your role does not reach here">To make a key takes the role operator.</EmptyState>
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
