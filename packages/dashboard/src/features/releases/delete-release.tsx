import type { Release } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { useAction } from "../../api/queries.ts";
import { ConfirmDialog } from "../../ui/index.ts";
import { dismissPush } from "./pushes.ts";

/** Deletes a release after confirmation. Render it only while it is open. */
export function DeleteRelease({ release: { id, tag }, onClose }: { release: Release; onClose: () => void }) {
  const navigate = useNavigate();
  const deletion = useAction("deleteRelease", {
    quiet: true,
    done: "Release deleted",
    onSuccess: () => {
      dismissPush(id);
      void navigate({ to: "/releases" });
    },
  });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Delete release?"
      consequence="The release can no longer be deployed or rolled back to, and its tag becomes free. Its storage is freed one day later. Releases that a robot runs, is assigned or keeps for rollback, and current releases of a fleet, cannot be deleted."
      verb="Delete release"
      danger
      type_to_confirm={tag}
      busy={deletion.isPending}
      command={`rf api DELETE /api/releases/${id}`}
      onConfirm={() => deletion.mutate({ params: { id } })}
    >
      {deletion.error !== null && (
        <p role="alert" className="mb-2 text-bad [overflow-wrap:anywhere]">
          {deletion.error.message}
        </p>
      )}
    </ConfirmDialog>
  );
}
