import type { Robot } from "@roamfleet/protocol/routes";
import { useAction } from "../../api/queries.ts";
import { Button, Command, Dialog, SecretOnce, shellLine, Time } from "../../ui/index.ts";
import { robotLines } from "./robot-lines.ts";

/** Makes the key for the new computer of a robot, and shows it this once. */
export function ReplaceDialog({ robot: { id, name }, onClose }: { robot: Robot; onClose: () => void }) {
  const replace = useAction("replaceRobot");
  const made = replace.data?.data;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Replace its computer"
      description={
        made === undefined
          ? "You get a key for one use within a day. Whoever enrols with it becomes this robot, with its name, place, labels, releases and config; the computer before is refused from then on. Until then it goes on as it is."
          : undefined
      }
      actions={
        made === undefined ? (
          <>
            <Button onClick={onClose}>Leave it</Button>
            <Button look="primary" busy={replace.isPending} onClick={() => replace.mutate({ params: { id } })}>
              Make the key
            </Button>
          </>
        ) : (
          <Button look="primary" onClick={onClose}>
            I have copied it
          </Button>
        )
      }
    >
      {made === undefined ? (
        <Command>{robotLines.replace(id)}</Command>
      ) : (
        <>
          <SecretOnce secret={made.key ?? ""}>
            The key for the new computer of <bdi className="font-medium [overflow-wrap:anywhere]">{name}</bdi>, shown this once. It goes{" "}
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
