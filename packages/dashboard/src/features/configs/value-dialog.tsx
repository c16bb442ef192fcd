import type { ConfigEntry } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Diff, FormDialog, Json, JsonInput, jsonText, readJson, Switch, TextInput } from "../../ui/index.ts";
import {
  type ConfigScope,
  type EffectiveValue,
  isOwn,
  type Scope,
  scopeName,
  setLine,
  unsetLine,
  valueLine,
  wrongLine,
} from "./config-values.ts";
import { useScopeName } from "./configs-frame.tsx";

const NAMESPACE_DEFAULT = "default";
const VALUE_HINT = "JSON: 1.5, true, a quoted string, a list or an object";
const SECRET_HINT = "JSON. The value is encrypted, sent only to the robots that use it, and not shown again";

interface Draft {
  namespace: string;
  key: string;
  text: string;
  secret: boolean;
}

const draftOf = (of: EffectiveValue | undefined): Draft => ({
  namespace: of?.namespace ?? NAMESPACE_DEFAULT,
  key: of?.key ?? "",
  text: of === undefined || of.secret ? "" : jsonText(of.value),
  secret: of?.secret ?? false,
});

/** A dialog that sets a config value at a scope. `of` is the value that is now effective there. Render the dialog only while it is open. */
export function ValueDialog({
  place: { scope, scope_id },
  of,
  onClose,
}: {
  place: ConfigScope;
  of: EffectiveValue | undefined;
  onClose: () => void;
}) {
  const name = useScopeName(scope, scope_id);
  const input = useRef<HTMLTextAreaElement>(null);
  const [draft, setDraft] = useState(() => draftOf(of));
  const { namespace, key, text, secret } = draft;
  const read = readJson(text);
  const action = useAction("setConfig", {
    quiet: true,
    done: ({ data }) => `Value set as version ${data.version}. Deploy configs to update robots.`,
    onSuccess: onClose,
  });
  const where = scope === "org" ? {} : { scope, scope_id };
  const send = (): void => {
    if ("problem" in read) return;
    action.mutate(
      { body: { namespace, key, value: read.value, ...where, ...(secret ? { secret: true } : {}) } },
      { onError: ({ message }) => setDraft((now) => ({ ...now, text: showPlace(input.current, now, message) })) },
    );
  };
  return (
    <FormDialog
      onClose={onClose}
      wide
      title={of === undefined ? "Set value" : isOwn(of, { scope, scope_id }) ? "Change value" : "Override value"}
      description={<Where scope={scope} name={name} />}
      verb="Set value"
      sending={action}
      locked={"problem" in read}
      error={isOfValue(action.error) ? null : action.error}
      command={setLine(
        { namespace, key: key === "" ? "KEY" : key, scope, scope_id },
        "value" in read ? JSON.stringify(read.value) : undefined,
        secret,
      )}
      onSubmit={send}
    >
      <Names draft={draft} onChange={setDraft} is_new={of === undefined} />
      <JsonInput
        label="Value"
        input={input}
        rows={8}
        offer_text
        value={text}
        onChange={(next) => setDraft({ ...draft, text: next })}
        hint={secret ? SECRET_HINT : VALUE_HINT}
        error={isOfValue(action.error) ? placed(action.error, draft) : undefined}
      />
      <Change of={of} draft={draft} />
      <Schema namespace={namespace} />
      <OtherPlaces namespace={namespace} name={key} />
    </FormDialog>
  );
}

function Where({ scope, name }: { scope: Scope; name: string | undefined }) {
  const of = scope === "org" ? "the whole organization" : `the ${scope} `;
  return (
    <>
      For {of}
      {scope !== "org" && <bdi>{name}</bdi>}. Robots receive the value with the next config deployment.
    </>
  );
}

/** Whether an error of the server is about the value, and not about another field. */
const isOfValue = (error: Error | null): error is Error => error?.message.startsWith("value ") === true;

function placed(error: Error, { key, text }: Draft): string {
  const read = readJson(text);
  const line = "value" in read ? wrongLine(read.value, key, error.message) : undefined;
  return line === undefined ? error.message : `Line ${line}: ${error.message}`;
}

/** Formats the value and selects the line that the error is about. Returns the formatted text. */
function showPlace(input: HTMLTextAreaElement | null, { key, text }: Draft, message: string): string {
  const read = readJson(text);
  const line = "value" in read ? wrongLine(read.value, key, message) : undefined;
  if (line === undefined || !("value" in read)) return text;
  const written = jsonText(read.value);
  const start =
    written
      .split("\n")
      .slice(0, line - 1)
      .join("\n").length + (line > 1 ? 1 : 0);
  const end = written.indexOf("\n", start);
  requestAnimationFrame(() => {
    input?.focus();
    input?.setSelectionRange(start, end === -1 ? written.length : end);
  });
  return written;
}

function Names({ draft, onChange, is_new }: { draft: Draft; onChange: (draft: Draft) => void; is_new: boolean }) {
  const is_admin = useMay("admin");
  return (
    <>
      <div className="grid gap-x-4 sm:grid-cols-2">
        <TextInput
          label="Key"
          required
          maxLength={200}
          disabled={!is_new}
          value={draft.key}
          onValue={(key) => onChange({ ...draft, key })}
        />
        <TextInput
          label="Namespace"
          required
          maxLength={200}
          disabled={!is_new}
          value={draft.namespace}
          onValue={(namespace) => onChange({ ...draft, namespace })}
          hint={is_new ? "Each namespace is one file on the robot" : undefined}
        />
      </div>
      {is_admin && is_new && (
        <Switch
          label="Secret"
          checked={draft.secret}
          onChange={(secret) => onChange({ ...draft, secret })}
          hint="The value is encrypted, and sent only to the robots that use it. A key is either secret at all scopes or at none."
        />
      )}
    </>
  );
}

/** The difference between the current and the new value. */
function Change({ of, draft: { text, secret } }: { of: EffectiveValue | undefined; draft: Draft }) {
  const read = readJson(text);
  if (of === undefined || secret || of.secret || "problem" in read) return null;
  const [before, after] = [jsonText(of.value), jsonText(read.value)];
  if (before === after) return null;
  return (
    <div className="mb-3">
      <h3 className="mb-1 font-medium">Changes</h3>
      <Diff label="Current and new value" before={before} after={after} />
    </div>
  );
}

function Schema({ namespace }: { namespace: string }) {
  const schema = useQuery(query("listConfigSchemas")).data?.items.find((one) => one.namespace === namespace);
  if (schema === undefined) return null;
  return (
    <details className="mb-3">
      <summary className="min-h-6">
        Namespace <bdi>{namespace}</bdi> has a schema: invalid values are refused
      </summary>
      <div className="mt-1">
        <Json value={schema.schema} />
      </div>
    </details>
  );
}

/** Lists the scopes that set this key. Values at narrower scopes stay effective there. */
function OtherPlaces({ namespace, name }: { namespace: string; name: string }) {
  const set = useQuery({ ...query("listConfigs", { query: { namespace, key: name, limit: 20 } }), enabled: name !== "" }).data?.items ?? [];
  if (set.length === 0) return null;
  return (
    <details className="mb-3">
      <summary className="min-h-6">Scopes with this key{set.length === 20 ? " (first 20 shown)" : `: ${set.length}`}</summary>
      <ul className="mt-1 space-y-1 text-xs">
        {set.map((entry) => (
          <OtherPlace key={entry.id} entry={entry} />
        ))}
      </ul>
    </details>
  );
}

function OtherPlace({ entry }: { entry: ConfigEntry }) {
  const name = useScopeName(entry.scope, entry.scope_id ?? undefined);
  return (
    <li className="flex min-h-6 min-w-0 items-center gap-3">
      <Link to="/configs/$id" params={{ id: entry.id }} className="shrink-0 underline">
        {scopeName(entry.scope)} <bdi>{name}</bdi>
      </Link>
      <span className="min-w-0 truncate font-mono">{valueLine(entry)}</span>
    </li>
  );
}

/** A dialog that unsets a config value after confirmation. Render it only while it is open. */
export function UnsetDialog({
  of,
  onClose,
}: {
  of: Pick<EffectiveValue, "namespace" | "key" | "scope" | "scope_id" | "config_id">;
  onClose: () => void;
}) {
  const wider =
    of.scope === "org"
      ? "After the next config deployment, only robots with a value of their site, fleet or robot have this key."
      : "After the next config deployment, the value of the next wider scope applies, if one is set.";
  return (
    <ConfirmAction
      route="deleteConfig"
      args={{ params: { id: of.config_id } }}
      onClose={onClose}
      title="Unset value?"
      consequence={
        <>
          <bdi className="font-mono text-ink [overflow-wrap:anywhere]">
            {of.namespace}/{of.key}
          </bdi>{" "}
          of the {scopeName(of.scope)} is removed. {wider} Until then, robots keep their current value. The history is kept, and you can
          restore an earlier version.
        </>
      }
      verb="Unset value"
      danger
      done="Value unset. Deploy configs to update robots."
      command={unsetLine(of)}
    />
  );
}
