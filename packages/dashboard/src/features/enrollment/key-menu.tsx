import type { EnrollmentKey } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, Menu } from "../../ui/index.ts";
import { keyLines } from "./key-lines.ts";

/** What can be done with a key. */
export function KeyMenu({ enrollment_key: key }: { enrollment_key: EnrollmentKey }) {
  const may_change = useMay("operator");
  const navigate = useNavigate();
  const [is_asking, setAsking] = useState(false);
  return (
    <>
      <Menu
        label={`More about key ${key.label?.slice(0, 80) ?? key.id}`}
        entries={[
          { label: "Robots of its fleet", onSelect: () => void navigate({ to: "/robots", search: { fleet_id: key.fleet_id } }) },
          copyAsRf(keyLines.list),
          may_change && key.status === "active" && { label: "Revoke…", danger: true, onSelect: () => setAsking(true) },
        ]}
      />
      {is_asking && <RevokeKey enrollment_key={key} onClose={() => setAsking(false)} />}
    </>
  );
}

/** Ends a key, once it was said what stays. */
export function RevokeKey({
  enrollment_key: { id, uses },
  onClose,
}: {
  enrollment_key: Pick<EnrollmentKey, "id" | "uses">;
  onClose: () => void;
}) {
  const revoking = useAction("revokeEnrollmentKey", { done: "The key is revoked", onSuccess: onClose });
  const stay =
    uses === 0
      ? "Nobody enrolled with it yet."
      : uses === 1
        ? "The robot that enrolled with it stays."
        : `The ${uses.toLocaleString()} robots that enrolled with it stay.`;
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Revoke the key?"
      consequence={`No robot can enrol with it from now on. ${stay} This cannot be taken back; make another key when you need one.`}
      verb="Revoke it"
      danger
      command={keyLines.revoke(id)}
      busy={revoking.isPending}
      onConfirm={() => revoking.mutate({ params: { id } })}
    />
  );
}
