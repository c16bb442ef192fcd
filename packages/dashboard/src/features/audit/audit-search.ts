import type { AuditSearch } from "../../search.ts";
import { shellLine } from "../../ui/format.ts";

/** Returns the filters that the user selected, without the open entry. */
export function selectedOf({ entry: _, reads: __, ...filter }: AuditSearch): Omit<AuditSearch, "entry" | "reads"> {
  return filter;
}

/** Whether the list contains only what was changed. A selected action may be one that reads. */
const isChangesOnly = ({ reads, action }: AuditSearch): boolean => reads !== true && action === undefined;

/** Returns the filters for the API. */
export const filterOf = (search: AuditSearch) => ({ ...selectedOf(search), ...(isChangesOnly(search) ? { changes: true } : {}) });

/** Returns the path of the export with the same filters. */
export function exportPath(search: AuditSearch): string {
  const fields = Object.entries(filterOf(search)).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  const words = new URLSearchParams(fields).toString();
  return `/api/audit/export${words === "" ? "" : `?${words}`}`;
}

/** Returns the `rf` command that lists the same entries of the audit log. */
export function auditCommand(search: AuditSearch): string {
  const { actor_id, token_id, object_id, action, outcome, since, until } = search;
  const changes = isChangesOnly(search);
  return shellLine("rf", "audit", { actor: actor_id, "token-id": token_id, object: object_id, action, outcome, since, until, changes });
}

/** Actions whose words differ from their names. */
const ACTION_WORDS: Readonly<Record<string, string>> = {
  commentIncident: "Comment on incident",
  "stream.opened": "Open stream",
  "stream.closed": "Close stream",
};

/** Converts the name of a route or event to words: `getShellRecording` is "Get shell recording". */
export function actionWords(action: string): string {
  const known = ACTION_WORDS[action];
  if (known !== undefined) return known;
  const words = action
    .replace(/[._]/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
