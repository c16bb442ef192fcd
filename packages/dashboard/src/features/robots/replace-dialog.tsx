import type { Robot } from "@roamfleet/protocol/routes";
import { useAction } from "../../api/queries.ts";
import { Button, Command, Dialog, SecretOnce, shellLine, Time } from "../../ui/index.ts";
import { robotLines } from "./robot-lines.ts";

/** Creates the enrollment key for a robot's new computer and shows it once. */
export function ReplaceDialog({ robot: { id, name }, onClose }: { robot: Robot; onClose: () => void }) {
  const replace = useAction("replaceRobot");
  const made = replace.data?.data;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Replace computer"
      description={
        made === undefined
          ? "Creates a key that can be used once within one day. The computer that enrolls with it becomes this robot, with the same name, fleet, labels, releases and config. From then on, the previous computer is refused; until then, it keeps working."
          : undefined
      }
      actions={
        made === undefined ? (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button look="primary" busy={replace.isPending} onClick={() => replace.mutate({ params: { id } })}>
              Create key
            </Button>
          </>
        ) : (
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        )
      }
    >
      {made === undefined ? (
        <Command>{robotLines.replace(id)}</Command>
      ) : (
        <>
          <SecretOnce secret={made.key ?? ""}>
            The key for the new computer of <bdi className="font-medium [overflow-wrap:anywhere]">{name}</bdi>is shown only once. It expires{" "}
            <Time at={made.expires_at} />.
          </SecretOnce>
          <p className="mt-4 mb-1">On the new computer, with an empty state directory:</p>
          <Command>
            {`ROAMFLEET_ENROLL_KEY=${made.key ?? "KEY"} ${shellLine("rf-agent", "run", "--server", window.location.origin, "--state", "/var/lib/roamfleet-agent")}`}
          </Command>
        </>
      )}
    </Dialog>
  );
}
