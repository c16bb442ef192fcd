import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { randomId } from "../../api/client.ts";
import { query, useAction } from "../../api/queries.ts";
import type { NewDeploymentSearch } from "../../search.ts";
import { FormDialog, Section, Select } from "../../ui/index.ts";
import { robots } from "../deployments/deployment-text.ts";
import { deployConfigCommand, type Draft, EMPTY_DRAFT, errorAt, type Errors, readDraft, type Written } from "../deployments/draft.ts";
import { type ConfigPlanRequest, PlanWaves, useConfigPlan } from "../deployments/plan-view.tsx";
import { RolloutEditor } from "../deployments/rollout-editor.tsx";
import { type Target, type TargetKind, targetFields, targetOf } from "../deployments/target.ts";
import { TargetPicker } from "../deployments/target-picker.tsx";
import type { ConfigScope } from "./config-values.ts";
import { RobotDiff, RobotsDiff } from "./robot-diff.tsx";

const NO_ROBOTS: readonly string[] = [];

/** Returns the target that the scope of a page suggests. */
function suggestedBy({ scope, scope_id }: ConfigScope): { kind: TargetKind; chosen: NewDeploymentSearch } {
  if (scope_id === undefined || scope === "org") return { kind: "fleet", chosen: {} };
  if (scope === "site") return { kind: "selection", chosen: { site_id: scope_id } };
  return { kind: scope, chosen: scope === "robot" ? { robot_id: scope_id } : { fleet_id: scope_id } };
}

/** The state of the form: the target, the namespace and the rollout, and the request and plan that follow from them. */
function useForm(place: ConfigScope, namespace: string | undefined) {
  const [suggested] = useState(() => suggestedBy(place));
  const [kind, setKind] = useState(suggested.kind);
  const [chosen, setChosen] = useState(suggested.chosen);
  const [only, setOnly] = useState(namespace);
  const [draft, setDraft] = useState<Draft>(EMPTY_DRAFT);
  const [is_typing, setTyping] = useState(false);
  const rollout_kind = kind === "robot" ? ("robot" as const) : ("fleet" as const);
  // The expiry is relative to the last change of the draft, so that an unchanged draft always yields the same request.
  const written = useMemo(() => readDraft(draft, rollout_kind, Date.now()), [draft, rollout_kind]);
  const target = targetOf(kind, chosen, NO_ROBOTS);
  const request = is_typing ? undefined : requestOf(target, only, written);
  const planned = useConfigPlan(request);
  const errors: Errors = { ...planned.errors, ...written.errors };
  return {
    kind,
    setKind,
    chosen,
    setChosen,
    only,
    setOnly,
    draft,
    setDraft,
    setTyping,
    rollout_kind,
    written,
    target,
    request,
    planned,
    errors,
  };
}

type Form = ReturnType<typeof useForm>;

/** Deploys configs to a robot, a fleet or a selection after showing the changes. Render it only while it is open. */
export function DeployDialog({ place, namespace, onClose }: { place: ConfigScope; namespace: string | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  const form = useForm(place, namespace);
  const { only, target, request, planned } = form;
  const { rollout, scheduled_at, expires_seconds } = form.written;
  const action = useAction("createConfigDeployment", {
    quiet: true,
    onSuccess: ({ data: { id } }) => {
      onClose();
      void navigate({ to: "/config-deployments/$id", params: { id } });
    },
  });
  return (
    <FormDialog
      onClose={onClose}
      wide
      title="Deploy configs"
      description={
        rollout.waves === undefined
          ? "Each robot receives the values that are effective for it at the time of its update. Later changes are excluded."
          : "All waves receive the values that are effective when the deployment starts. Later changes are excluded."
      }
      verb={verbOf(form.kind, scheduled_at !== undefined, planned.plan?.total)}
      sending={action}
      error={action.error ?? errorOf(planned.error)}
      locked={request === undefined || planned.plan === undefined || planned.is_behind}
      command={deployConfigCommand({
        namespace: only,
        target: target ?? { kind: "fleet", id: "FLEET" },
        rollout,
        scheduled_at,
        expires_seconds,
      })}
      onSubmit={() => request !== undefined && action.mutate({ body: request, idempotency_key: randomId() })}
    >
      <Fields form={form} />
      <Preview form={form} />
    </FormDialog>
  );
}

function Fields({ form }: { form: Form }) {
  const { planned, errors } = form;
  return (
    <>
      <TargetPicker
        kind={form.kind}
        onKind={form.setKind}
        chosen={form.chosen}
        onChoose={(part) => form.setChosen((now) => ({ ...now, ...part }))}
        robot_ids={NO_ROBOTS}
        onClearRobots={() => {}}
        target={form.target}
        total={planned.is_behind ? undefined : planned.plan?.total}
        onTyping={form.setTyping}
        error={errorAt(errors, "robot_id", "fleet_id", "target_selector")}
      />
      <NamespaceChoice value={form.only} onChange={form.setOnly} />
      <RolloutEditor
        of="config"
        draft={form.draft}
        kind={form.rollout_kind}
        errors={errors}
        onChange={(change) => form.setDraft((now) => ({ ...now, ...change }))}
      />
    </>
  );
}

/** The planned waves, and the changes of each robot. */
function Preview({ form: { only, target, planned } }: { form: Form }) {
  const { plan } = planned;
  return (
    <>
      {plan !== undefined && plan.rollout.waves !== null && (
        <Section title="Preview">
          <PlanWaves plan={plan} />
        </Section>
      )}
      {target !== undefined && (
        <Section title="Changes">
          {target.kind === "robot" ? (
            <RobotDiff robot_id={target.id} namespace={only} />
          ) : (
            <RobotsDiff target={target} namespace={only} total={plan?.total} />
          )}
        </Section>
      )}
    </>
  );
}

/** Returns the request; undefined while the form is incomplete or invalid. */
function requestOf(target: Target | undefined, namespace: string | undefined, { rollout, scheduled_at, errors }: Written) {
  if (target === undefined || Object.keys(errors).length > 0) return undefined;
  const request: ConfigPlanRequest = {
    ...targetFields(target),
    ...(namespace === undefined ? {} : { namespace }),
    ...(scheduled_at === undefined ? {} : { scheduled_at }),
    rollout,
  };
  return request;
}

function verbOf(kind: TargetKind, is_scheduled: boolean, total: number | undefined): string {
  const verb = is_scheduled ? "Schedule" : "Deploy";
  if (kind === "robot") return is_scheduled ? "Schedule for this robot" : "Deploy to this robot";
  return total === undefined ? verb : `${verb} ${is_scheduled ? "for" : "to"} ${robots(total)}`;
}

const errorOf = (error: unknown): Error | null => (error instanceof Error ? error : null);

const ALL = "";

function NamespaceChoice({ value, onChange }: { value: string | undefined; onChange: (namespace: string | undefined) => void }) {
  const set = useQuery(query("listConfigs", { query: { limit: 1_000 } })).data?.items ?? [];
  const names = [...new Set([...set.map(({ namespace }) => namespace), ...(value === undefined ? [] : [value])])].toSorted();
  return (
    <Select
      label="Namespaces"
      value={value ?? ALL}
      options={[{ value: ALL, label: "All namespaces" }, ...names.map((name) => ({ value: name, label: `Only ${name}` }))]}
      onValue={(name) => onChange(name === ALL ? undefined : name)}
    />
  );
}
