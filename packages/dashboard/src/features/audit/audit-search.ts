import type { AuditSearch } from "../../search.ts";
import { shellLine } from "../../ui/format.ts";

/** Returns the filters for the API, without the open entry. */
export function filterOf({ entry: _, ...filter }: AuditSearch): Omit<AuditSearch, "entry"> {
  return filter;
}

/** Returns the path of the export with the same filters. */
export function exportPath(search: AuditSearch): string {
  const query = new URLSearchParams(Object.entries(filterOf(search)).filter((pair): pair is [string, string] => pair[1] !== undefined));
  const words = query.toString();
  return `/api/audit/export${words === "" ? "" : `?${words}`}`;
}

/** Returns the `rf` command that lists the same entries of the audit log. */
export const auditCommand = ({ actor_id, token_id, object_id, action, outcome, since, until }: AuditSearch): string =>
  shellLine("rf", "audit", { actor: actor_id, "token-id": token_id, object: object_id, action, outcome, since, until });

/** Converts the name of a route or event to words: `getShellRecording` is "Get shell recording", `stream.opened` "Stream opened". */
export function actionWords(action: string): string {
  const words = action
    .replace(/[._]/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
