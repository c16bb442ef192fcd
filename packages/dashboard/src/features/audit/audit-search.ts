/** The URL parameters: filters and the open entry. Times are RFC 3339. */
export interface AuditSearch {
  actor_id?: string | undefined;
  token_id?: string | undefined;
  object_id?: string | undefined;
  action?: string | undefined;
  outcome?: "done" | "refused" | undefined;
  since?: string | undefined;
  until?: string | undefined;
  entry?: string | undefined;
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
const time = (value: unknown): string | undefined => {
  const read = text(value);
  return read === undefined || Number.isNaN(Date.parse(read)) ? undefined : read;
};

/** Parses the URL parameters and ignores invalid ones. */
export function readAuditSearch(search: Record<string, unknown>): AuditSearch {
  const found: AuditSearch = {
    actor_id: text(search.actor_id),
    token_id: text(search.token_id),
    object_id: text(search.object_id),
    action: text(search.action),
    outcome: search.outcome === "done" || search.outcome === "refused" ? search.outcome : undefined,
    since: time(search.since),
    until: time(search.until),
    entry: text(search.entry),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

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

const FLAGS = {
  actor_id: "--actor",
  token_id: "--token-id",
  object_id: "--object",
  action: "--action",
  outcome: "--outcome",
  since: "--since",
  until: "--until",
} as const;

/** Returns the arguments of the equivalent `rf` command. */
export function auditWords(search: AuditSearch): string[] {
  return [
    "rf",
    "audit",
    ...Object.entries(FLAGS).flatMap(([name, flag]) => {
      const value = search[name as keyof typeof FLAGS];
      return value === undefined ? [] : [flag, value];
    }),
  ];
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** Converts a time to the value of a datetime-local input: local time without a zone. */
export function toLocalInput(at: string | undefined): string {
  if (at === undefined) return "";
  const date = new Date(at);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

/** Converts the value of a datetime-local input to RFC 3339; undefined if empty. */
export function fromLocalInput(value: string): string | undefined {
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}
