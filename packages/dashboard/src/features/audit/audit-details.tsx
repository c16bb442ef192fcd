import type { AuditEntry } from "@roamfleet/protocol/routes";
import type { ReactNode } from "react";
import { CopyText, Dialog, Json, KeyValue, Text, Time } from "../../ui/index.ts";
import { actionWords } from "./action-words.ts";
import { Outcome } from "./audit-columns.tsx";
import { ObjectLink } from "./object-link.tsx";

const idText = (label: string, id: string | null): ReactNode => (id === null ? "—" : <CopyText label={label}>{id}</CopyText>);

/** All fields of an entry. */
export function AuditDetails({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const { actor, data } = entry;
  return (
    <Dialog open onClose={onClose} title={actionWords(entry.action)} wide>
      <KeyValue
        items={[
          [
            "Action",
            <code key="action" className="font-mono text-xs">
              {entry.action}
            </code>,
          ],
          ["Time", <Time key="time" at={entry.at} exact />],
          [
            "User",
            <span key="who">
              <Text>{actor.name ?? actor.id ?? actor.type}</Text> <span className="text-muted">({actor.type.replaceAll("_", " ")})</span>
            </span>,
          ],
          ["User ID", idText("ID", actor.id)],
          ["Token", idText("Token", entry.token_id)],
          ["Outcome", <Outcome key="outcome" error={entry.error} />],
          ["Status", entry.status ?? "—"],
          [
            "Object",
            <span key="about" className="flex flex-wrap items-center gap-x-3">
              {idText("ID", entry.object_id)}
              <ObjectLink id={entry.object_id} is_only>
                Open
              </ObjectLink>
            </span>,
          ],
          ["Request", <Text key="request">{`${entry.method} ${entry.path}`}</Text>],
          ["Address", <Text key="address">{entry.ip}</Text>],
          ["User agent", <Text key="program">{entry.user_agent}</Text>],
          ["Request ID", idText("Request ID", entry.request_id)],
        ]}
      />
      {Object.keys(data).length > 0 && (
        <div className="mt-4">
          <p className="mb-1 text-muted">Data</p>
          <Json value={data} />
        </div>
      )}
    </Dialog>
  );
}
