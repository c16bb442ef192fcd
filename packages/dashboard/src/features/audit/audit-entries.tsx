import type { AuditEntry } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleX } from "lucide-react";
import type { ReactNode } from "react";
import { Badge, type Column, CopyText, Dialog, Json, KeyValue, Text, TextLine, Time } from "../../ui/index.ts";
import { actionWords } from "./audit-search.ts";

const errorWords = (error: string): string => error.replaceAll("_", " ");

/** Shows "done", or the error code of a refused action. */
function Outcome({ error }: Pick<AuditEntry, "error">) {
  return error === null ? (
    <Badge tone="ok" icon={CircleCheck}>
      done
    </Badge>
  ) : (
    <Badge tone="bad" icon={CircleX}>
      {errorWords(error)}
    </Badge>
  );
}

const actorWords = ({ actor }: Pick<AuditEntry, "actor">): string => actor.name ?? actor.id ?? actor.type;

/** The action of an entry in words. On narrow screens, which show no outcome column, an icon marks refused actions. */
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
  { name: "Time", width: "minmax(5rem,1fr)", cell: ({ at }) => <Time at={at} /> },
  { name: "User", width: "minmax(4rem,1.2fr)", cell: (entry) => <TextLine>{actorWords(entry)}</TextLine> },
  { name: "Action", width: "minmax(7rem,2fr)", cell: (entry) => <Action entry={entry} /> },
  {
    name: "Object",
    width: "minmax(8rem,2fr)",
    priority: 3,
    cell: ({ object_id, object_name }) => (
      <ObjectLink id={object_id}>
        {object_name == null ? (
          <TextLine>{object_id === null ? null : `${kindWords(object_id).replace(/ of $/, " ")}${object_id}`}</TextLine>
        ) : (
          <TextLine>{`${kindWords(object_id)}${object_name}`}</TextLine>
        )}
      </ObjectLink>
    ),
  },
  { name: "Outcome", width: "8rem", priority: 2, cell: ({ error }) => <Outcome error={error} /> },
  { name: "IP address", width: "minmax(6rem,1fr)", priority: 3, cell: ({ ip }) => <TextLine>{ip}</TextLine> },
];

const idText = (label: string, id: string | null): ReactNode => (id === null ? "—" : <CopyText label={label} text={id} />);

interface FieldChange {
  before?: unknown;
  after?: unknown;
}

const valueText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value ?? null));

/** The fields that a request changed, with their values before and after. */
function Changes({ changes }: { changes: Readonly<Record<string, FieldChange>> }) {
  const fields = Object.entries(changes);
  if (fields.length === 0) return <p className="text-muted">No field changed</p>;
  return (
    <dl className="divide-y divide-line rounded-md border border-line">
      {fields.map(([name, { before, after }]) => (
        <div key={name} className="grid gap-x-3 gap-y-1 px-3 py-2 sm:grid-cols-[8rem_minmax(0,1fr)_minmax(0,1fr)]">
          <dt className="text-muted">{name.replaceAll("_", " ")}</dt>
          <dd className="[overflow-wrap:anywhere] text-bad">
            <span className="sr-only">before: </span>
            <span aria-hidden>− </span>
            <Text>{valueText(before)}</Text>
          </dd>
          <dd className="[overflow-wrap:anywhere] text-ok">
            <span className="sr-only">after: </span>
            <span aria-hidden>+ </span>
            <Text>{valueText(after)}</Text>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** All fields of an entry. */
export function AuditDetails({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const { actor } = entry;
  const { changes, ...data } = entry.data;
  return (
    <Dialog open onClose={onClose} title={actionWords(entry.action)} wide>
      <KeyValue
        items={{
          Action: <code className="font-mono text-xs">{entry.action}</code>,
          Time: <Time at={entry.at} exact />,
          User: (
            <span>
              <Text>{actor.name ?? actor.id ?? actor.type}</Text> <span className="text-muted">({actor.type.replaceAll("_", " ")})</span>
            </span>
          ),
          "User ID": idText("user ID", actor.id),
          "Token ID": idText("token ID", entry.token_id),
          Outcome: <Outcome error={entry.error} />,
          "HTTP status": entry.status ?? "—",
          Object: (
            <span className="flex flex-wrap items-center gap-x-3">
              {entry.object_name != null && <Text>{entry.object_name}</Text>}
              {idText("object ID", entry.object_id)}
              <ObjectLink id={entry.object_id} is_only>
                Open
              </ObjectLink>
            </span>
          ),
          Request: <Text>{`${entry.method} ${entry.path}`}</Text>,
          "IP address": <Text>{entry.ip}</Text>,
          "User agent": <Text>{entry.user_agent}</Text>,
          "Request ID": idText("request ID", entry.request_id),
        }}
      />
      {typeof changes === "object" && changes !== null && (
        <div className="mt-4">
          <p className="mb-1 text-muted">Changes</p>
          <Changes changes={changes as Record<string, FieldChange>} />
        </div>
      )}
      {Object.keys(data).length > 0 && (
        <div className="mt-4">
          <p className="mb-1 text-muted">Data</p>
          <Json value={data} />
        </div>
      )}
    </Dialog>
  );
}

const KINDS: Readonly<Record<string, string>> = {
  rob: "robot",
  fleet: "fleet",
  site: "site",
  rel: "release",
  dep: "deployment of",
  cdep: "config deployment",
  cfg: "config",
  usr: "user",
  tok: "token",
  key: "enrollment key",
  alr: "alert rule",
  chn: "channel",
  inc: "incident",
  sess: "session",
  shl: "shell session",
  view: "view",
};

/** Returns the kind of an object by the prefix of its ID, to be followed by its name. */
function kindWords(id: string | null): string {
  const kind = KINDS[id?.split("_", 1)[0] ?? ""];
  return kind === undefined ? "" : `${kind} `;
}

/** The dashboard page of each kind of object, by the prefix of the object's ID. */
const PAGES = {
  rob: "/robots/$id",
  fleet: "/fleets/$id",
  site: "/sites/$id",
  rel: "/releases/$id",
  dep: "/deployments/$id",
  cdep: "/config-deployments/$id",
  shl: "/shells/$id",
} as const;

/** Returns the page of an object; undefined if it has none. */
const pageOf = (id: string | null): (typeof PAGES)[keyof typeof PAGES] | undefined => {
  const prefix = id?.split("_", 1)[0] ?? "";
  return Object.hasOwn(PAGES, prefix) ? PAGES[prefix as keyof typeof PAGES] : undefined;
};

/** A link to the page of an object. For an object without a page, renders only the children or, with `is_only`, nothing. */
function ObjectLink({ id, is_only = false, children }: { id: string | null; is_only?: boolean; children: ReactNode }) {
  const to = pageOf(id);
  if (id === null || to === undefined) return is_only ? null : children;
  return (
    <Link to={to} params={{ id }} className="block min-w-0 text-accent hover:underline">
      {children}
    </Link>
  );
}
