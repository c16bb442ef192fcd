import type { EnrollmentKey } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, Menu } from "../../ui/index.ts";
import { keyLines } from "./key-lines.ts";

/** The actions on an enrollment key. */
export function KeyMenu({ enrollment_key: key }: { enrollment_key: EnrollmentKey }) {
  const may_change = useMay("operator");
  const navigate = useNavigate();
  const [is_asking, setAsking] = useState(false);
  return (
    <>
      <Menu
        label={`Actions for key ${key.label?.slice(0, 80) ?? key.id}`}
        entries={[
          { label: "Show robots of the fleet", onSelect: () => void navigate({ to: "/robots", search: { fleet_id: key.fleet_id } }) },
          copyAsRf(keyLines.list),
          may_change && key.status === "active" && { label: "Revoke…", danger: true, onSelect: () => setAsking(true) },
        ]}
      />
      {is_asking && <RevokeKey enrollment_key={key} onClose={() => setAsking(false)} />}
    </>
  );
}

/** Revokes a key after confirmation. */
export function RevokeKey({
  enrollment_key: { id, uses },
  onClose,
}: {
  enrollment_key: Pick<EnrollmentKey, "id" | "uses">;
  onClose: () => void;
}) {
  const revoking = useAction("revokeEnrollmentKey", { done: "Key revoked", onSuccess: onClose });
  const stay =
    uses === 0
      ? "No robot has enrolled with it."
      : uses === 1
        ? "The robot that enrolled with it is not affected."
        : `The ${uses.toLocaleString()} robots that enrolled with it are not affected.`;
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Revoke key?"
      consequence={`Robots can no longer enroll with this key. ${stay} This cannot be undone; create another key when you need one.`}
      verb="Revoke key"
      danger
      command={keyLines.revoke(id)}
      busy={revoking.isPending}
      onConfirm={() => revoking.mutate({ params: { id } })}
    />
  );
}
