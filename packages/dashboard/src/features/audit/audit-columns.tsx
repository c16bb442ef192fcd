import type { AuditEntry } from "@roamfleet/protocol/routes";
import { CircleCheck, CircleX } from "lucide-react";
import { Badge, type Column, Text, Time } from "../../ui/index.ts";
import { actionWords } from "./action-words.ts";
import { ObjectLink } from "./object-link.tsx";

const errorWords = (error: string): string => error.replaceAll("_", " ");

/** Shows "done", or the error code of a refused action. */
export function Outcome({ error }: Pick<AuditEntry, "error">) {
  return error === null ? (
    <Badge tone="ok" icon={<CircleCheck size={12} aria-hidden />}>
      done
    </Badge>
  ) : (
    <Badge tone="bad" icon={<CircleX size={12} aria-hidden />}>
      {errorWords(error)}
    </Badge>
  );
}

export const actorWords = ({ actor }: Pick<AuditEntry, "actor">): string => actor.name ?? actor.id ?? actor.type;

/** The action in words. On narrow screens, which have no outcome column, refused actions have an icon. */
function Action({ entry: { action, error } }: { entry: AuditEntry }) {
  return (
    <span className="flex min-w-0 items-center gap-1.5">
      <span title={action} className="min-w-0 truncate font-medium">
        {actionWords(action)}
      </span>
      {error !== null && (
        <span role="img" aria-label={`Refused: ${errorWords(error)}`} title={errorWords(error)} className="shrink-0 text-bad sm:hidden">
          <CircleX size={14} aria-hidden />
        </span>
      )}
    </span>
  );
}

export const AUDIT_COLUMNS: readonly Column<AuditEntry>[] = [
  { name: "Time", width: "6.5rem", cell: ({ at }) => <Time at={at} /> },
  { name: "User", width: "minmax(6rem,1.5fr)", cell: (entry) => <Text line>{actorWords(entry)}</Text> },
  { name: "Action", width: "minmax(7rem,2fr)", cell: (entry) => <Action entry={entry} /> },
  {
    name: "Object",
    width: "minmax(8rem,2fr)",
    priority: 3,
    cell: ({ object_id }) => (
      <ObjectLink id={object_id}>
        <Text line className="font-mono text-xs">
          {object_id}
        </Text>
      </ObjectLink>
    ),
  },
  { name: "Outcome", width: "8rem", priority: 2, cell: ({ error }) => <Outcome error={error} /> },
  { name: "Address", width: "minmax(6rem,1fr)", priority: 3, cell: ({ ip }) => <Text line>{ip}</Text> },
];
