import { useAction } from "../../api/queries.ts";
import { ConfirmDialog } from "../../ui/index.ts";
import type { EffectiveValue } from "./effective.ts";
import { unsetLine } from "./rf-lines.ts";

/** Asks before a value is unset. Render it while it is asked. */
export function UnsetDialog({
  of,
  onClose,
}: {
  of: Pick<EffectiveValue, "namespace" | "key" | "scope" | "scope_id" | "config_id">;
  onClose: () => void;
}) {
  const removal = useAction("deleteConfig", {
    done: "Unset. Robots keep what they have until the next config deployment",
    onSuccess: onClose,
  });
  const wider =
    of.scope === "org"
      ? "Robots for which nothing narrower is set have no such value after the next config deployment."
      : "The value of a wider scope counts again, if there is one, from the next config deployment.";
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Unset this value"
      consequence={
        <>
          <bdi className="font-mono text-ink [overflow-wrap:anywhere]">
            {of.namespace}/{of.key}
          </bdi>{" "}
          of the {of.scope} goes. {wider} Robots keep what they have until then. Its history stays, and an earlier version can be set again.
        </>
      }
      verb="Unset it"
      danger
      busy={removal.isPending}
      command={unsetLine(of)}
      onConfirm={() => removal.mutate({ params: { id: of.config_id } })}
    />
  );
}
