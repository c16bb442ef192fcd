import type { ConfigSchema } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Card,
  ConfirmDialog,
  copyAsRf,
  EmptyState,
  Json,
  LinkButton,
  Menu,
  QueryState,
  shellLine,
  Text,
  Time,
} from "../../ui/index.ts";
import { ConfigsFrame } from "./configs-frame.tsx";
import { SchemaDialog } from "./schema-dialog.tsx";

type Window = { kind: "edit"; of: ConfigSchema | undefined } | { kind: "remove"; of: ConfigSchema } | undefined;

/** The JSON schemas of all namespaces. */
export function SchemasPage() {
  const schemas = useQuery(query("listConfigSchemas"));
  const may_set = useMay("operator");
  const [shown, setShown] = useState<Window>();
  return (
    <ConfigsFrame
      label="Config schemas"
      actions={
        may_set && (
          <Button look="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setShown({ kind: "edit", of: undefined })}>
            Set schema
          </Button>
        )
      }
    >
      <QueryState query={schemas}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState title="No schemas yet" command="rf configs schema set NAMESPACE FILE">
              Set a JSON Schema for a namespace to refuse invalid values. Robots then never receive a combination of values that violates
              it.
            </EmptyState>
          ) : (
            <ul className="space-y-3">
              {items.map((schema) => (
                <li key={schema.namespace}>
                  <SchemaCard
                    schema={schema}
                    onEdit={() => setShown({ kind: "edit", of: schema })}
                    onRemove={() => setShown({ kind: "remove", of: schema })}
                  />
                </li>
              ))}
            </ul>
          )
        }
      </QueryState>
      {shown?.kind === "edit" && <SchemaDialog of={shown.of} onClose={() => setShown(undefined)} />}
      {shown?.kind === "remove" && <RemoveSchema of={shown.of} onClose={() => setShown(undefined)} />}
    </ConfigsFrame>
  );
}

function SchemaCard({ schema, onEdit, onRemove }: { schema: ConfigSchema; onEdit: () => void; onRemove: () => void }) {
  const { namespace, version, updated_at, updated_by } = schema;
  const may_set = useMay("operator");
  const is_admin = useMay("admin");
  return (
    <Card className="!py-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="min-w-0 font-semibold">
          <Text line>{namespace}</Text>
        </h2>
        <span className="min-w-0 flex-1 text-muted max-sm:basis-full">
          version {version}, <Time at={updated_at} /> by <Text>{updated_by.name ?? updated_by.id ?? updated_by.type}</Text>
        </span>
        <LinkButton look="quiet" to="/configs" search={{ namespace }}>
          Values
        </LinkButton>
        {may_set && <Button onClick={onEdit}>Change…</Button>}
        <Menu
          label={`Actions for the schema of ${namespace.slice(0, 80)}`}
          entries={[
            copyAsRf(shellLine("rf", "configs", "schema", "show", namespace)),
            is_admin && { label: "Remove…", danger: true, onSelect: onRemove },
          ]}
        />
      </div>
      <details className="mt-2">
        <summary className="min-h-6 text-xs text-muted">Schema</summary>
        <div className="mt-1">
          <Json value={schema.schema} />
        </div>
      </details>
    </Card>
  );
}

function RemoveSchema({ of: { namespace }, onClose }: { of: ConfigSchema; onClose: () => void }) {
  const removal = useAction("deleteConfigSchema", { done: "Schema removed", onSuccess: onClose });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Remove schema?"
      consequence={
        <>
          Any value is then valid in the namespace <bdi className="font-mono text-ink [overflow-wrap:anywhere]">{namespace}</bdi>. Existing
          values and robots do not change.
        </>
      }
      verb="Remove schema"
      danger
      busy={removal.isPending}
      command={shellLine("rf", "configs", "schema", "remove", namespace)}
      onConfirm={() => removal.mutate({ params: { namespace } })}
    />
  );
}
