import type { Release } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { useAction } from "../../api/queries.ts";
import { ConfirmDialog } from "../../ui/index.ts";
import { dismissPush } from "./pushes.ts";

/** Asks before a release is deleted. Render it while it is asked. */
export function DeleteRelease({ release: { id, tag }, onClose }: { release: Release; onClose: () => void }) {
  const navigate = useNavigate();
  const deletion = useAction("deleteRelease", {
    quiet: true,
    done: "The release is deleted",
    onSuccess: () => {
      dismissPush(id);
      void navigate({ to: "/releases" });
    },
  });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Delete this release"
      consequence="Its tag becomes free, nobody can deploy it any more, and nobody can go back to it. The room of its content is free a day later. No robot changes: one that runs it, is to run it or keeps it to go back to, and a fleet that has it, keep it from being deleted."
      verb="Delete the release"
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
