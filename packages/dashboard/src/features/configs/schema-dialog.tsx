import type { ConfigSchema } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { Diff, FormDialog, JsonInput, jsonText, readJson, shellLine, TextInput } from "../../ui/index.ts";

const FIRST = jsonText({ type: "object", properties: {}, additionalProperties: false });

/** Sets the schema of a namespace. Render it only while it is open. */
export function SchemaDialog({ of, onClose }: { of: ConfigSchema | undefined; onClose: () => void }) {
  const [namespace, setNamespace] = useState(of?.namespace ?? "default");
  const before = of === undefined ? "" : jsonText(of.schema);
  const [text, setText] = useState(of === undefined ? FIRST : before);
  const read = readJson(text);
  const action = useAction("setConfigSchema", {
    quiet: true,
    done: ({ data }) => `Version ${data.version} of the schema set. Invalid values are now refused.`,
    onSuccess: onClose,
  });
  const broken = brokenValues(action.error);
  const is_changed = of !== undefined && "value" in read && jsonText(read.value) !== before;
  return (
    <FormDialog
      onClose={onClose}
      wide
      title={of === undefined ? "Set schema" : "Change schema"}
      description="A JSON Schema (draft 2020-12) for the namespace's object. Invalid values are refused when set, and robots never receive a combination of values that violates it."
      verb="Set schema"
      sending={action}
      locked={"problem" in read}
      error={broken === undefined ? action.error : null}
      command={shellLine("rf", "configs", "schema", "set", namespace, "schema.json")}
      onSubmit={() => {
        if ("value" in read) action.mutate({ params: { namespace }, body: { schema: read.value } });
      }}
    >
      <TextInput
        label="Namespace"
        required
        maxLength={200}
        disabled={of !== undefined}
        value={namespace}
        onChange={(event) => setNamespace(event.target.value)}
      />
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

/** Returns the violating values that the server's error lists; undefined for other errors. */
function brokenValues(error: Error | null): string[] | undefined {
  const said = /^values of namespace .*? break the schema: (.*)$/s.exec(error?.message ?? "")?.[1];
  return said?.split("; ");
}
