import type { ConfigSchema } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Card,
  copyAsRf,
  Diff,
  EmptyState,
  FormDialog,
  Json,
  JsonInput,
  jsonText,
  LinkButton,
  Menu,
  QueryState,
  readJson,
  shellLine,
  Text,
  TextInput,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { ConfigsFrame } from "./configs-frame.tsx";

/** The JSON schemas of all namespaces. */
export function SchemasPage() {
  const schemas = useQuery(query("listConfigSchemas"));
  const may_set = useMay("operator");
  const [shown, setShown] = useState<{ of: ConfigSchema | undefined }>();
  return (
    <ConfigsFrame
      label="Config schemas"
      actions={
        may_set && (
          <Button look="primary" icon={Plus} busy={false} onClick={() => setShown({ of: undefined })}>
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
              the schema.
            </EmptyState>
          ) : (
            <ul className="space-y-3">
              {items.map((schema) => (
                <li key={schema.namespace}>
                  <SchemaCard schema={schema} onEdit={() => setShown({ of: schema })} />
                </li>
              ))}
            </ul>
          )
        }
      </QueryState>
      {shown !== undefined && <SchemaDialog of={shown.of} onClose={() => setShown(undefined)} />}
    </ConfigsFrame>
  );
}

function SchemaCard({ schema, onEdit }: { schema: ConfigSchema; onEdit: () => void }) {
  const { namespace, version, updated_at, updated_by } = schema;
  const may_set = useMay("operator");
  const is_admin = useMay("admin");
  return (
    <Card className="!py-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="min-w-0 font-semibold">
          <TextLine>{namespace}</TextLine>
        </h2>
        <span className="min-w-0 flex-1 text-muted max-sm:basis-full">
          version {version}, <Time at={updated_at} /> by <Text>{updated_by.name ?? updated_by.id ?? updated_by.type}</Text>
        </span>
        <LinkButton look="quiet" to="/configs" search={{ namespace }}>
          Values
        </LinkButton>
        {may_set && (
          <Button busy={false} onClick={onEdit}>
            Change…
          </Button>
        )}
        <Menu
          label={`Actions for the schema of ${namespace.slice(0, 80)}`}
          entries={[
            copyAsRf(shellLine("rf", "configs", "schema", "show", namespace)),
            is_admin && { label: "Remove…", danger: true, renderDialog: (close) => <RemoveSchema of={schema} onClose={close} /> },
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

const RemoveSchema = ({ of: { namespace }, onClose }: { of: ConfigSchema; onClose: () => void }) => (
  <ConfirmAction
    route="deleteConfigSchema"
    args={{ params: { namespace } }}
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
    done="Schema removed"
    command={shellLine("rf", "configs", "schema", "remove", namespace)}
  />
);

const FIRST = jsonText({ type: "object", properties: {}, additionalProperties: false });

/** A dialog that sets the schema of a namespace. Render it only while it is open. */
function SchemaDialog({ of, onClose }: { of: ConfigSchema | undefined; onClose: () => void }) {
  const [namespace, setNamespace] = useState(of?.namespace ?? "default");
  const before = of === undefined ? "" : jsonText(of.schema);
  const [text, setText] = useState(of === undefined ? FIRST : before);
  const read = readJson(text);
  const action = useAction("setConfigSchema", {
    quiet: true,
    done: ({ data }) => `Schema set as version ${data.version}. Invalid values are now refused.`,
    onSuccess: onClose,
  });
  const broken = brokenValues(action.error);
  const is_changed = of !== undefined && "value" in read && jsonText(read.value) !== before;
  return (
    <FormDialog
      onClose={onClose}
      wide
      title={of === undefined ? "Set schema" : "Change schema"}
      description="A JSON Schema (draft 2020-12) for the object that contains all values of the namespace. Invalid values are refused when set, and robots never receive a combination of values that violates the schema."
      verb="Set schema"
      sending={action}
      locked={"problem" in read}
      error={broken === undefined ? action.error : null}
      command={shellLine("rf", "configs", "schema", "set", namespace, "schema.json")}
      onSubmit={() => {
        if ("value" in read) action.mutate({ params: { namespace }, body: { schema: read.value } });
      }}
    >
      <TextInput label="Namespace" required maxLength={200} disabled={of !== undefined} value={namespace} onValue={setNamespace} />
      <JsonInput label="Schema" rows={14} value={text} onChange={setText} />
      {broken !== undefined && (
        <div role="alert" className="mb-3 rounded-md border border-bad bg-bad-soft p-3 text-bad">
          <p className="mb-1 font-medium">Existing values violate this schema. Change them first:</p>
          <ul className="list-inside list-disc space-y-0.5 [overflow-wrap:anywhere]">
            {broken.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </div>
      )}
      {is_changed && (
        <div className="mb-3">
          <h3 className="mb-1 font-medium">Changes</h3>
          <Diff label="Current and new schema" before={before} after={text} />
        </div>
      )}
    </FormDialog>
  );
}

/** Returns the config values that violate a new schema, as listed in the server's error; undefined for other errors. */
function brokenValues(error: Error | null): string[] | undefined {
  const said = /^values of namespace .*? break the schema: (.*)$/s.exec(error?.message ?? "")?.[1];
  return said?.split("; ");
}
