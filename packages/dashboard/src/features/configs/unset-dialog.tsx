import { useAction } from "../../api/queries.ts";
import { ConfirmDialog } from "../../ui/index.ts";
import type { EffectiveValue } from "./effective.ts";
import { unsetLine } from "./rf-lines.ts";

/** Unsets a value after confirmation. Render it only while it is open. */
export function UnsetDialog({
  of,
  onClose,
}: {
  of: Pick<EffectiveValue, "namespace" | "key" | "scope" | "scope_id" | "config_id">;
  onClose: () => void;
}) {
  const removal = useAction("deleteConfig", {
    done: "Value unset. Deploy configs to update robots.",
    onSuccess: onClose,
  });
  const wider =
    of.scope === "org"
      ? "After the next config deployment, robots without a narrower value have no such value."
      : "After the next config deployment, the value of a wider scope applies again, if there is one.";
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Unset value?"
      consequence={
        <>
          <bdi className="font-mono text-ink [overflow-wrap:anywhere]">
            {of.namespace}/{of.key}
          </bdi>{" "}
          of the {of.scope} is removed. {wider} Until then, robots keep their current value. The history is kept, and you can restore an
          earlier version.
        </>
      }
      verb="Unset value"
      danger
      busy={removal.isPending}
      command={unsetLine(of)}
      onConfirm={() => removal.mutate({ params: { id: of.config_id } })}
    />
  );
}
