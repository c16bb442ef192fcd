import { parseSeries } from "@roamfleet/protocol/metric-gate";
import type { AlertRuleTest } from "@roamfleet/protocol/routes";
import { ALERT_CONDITIONS, type AlertConditionType, SEVERITIES, type Severity } from "@roamfleet/protocol/states";
import { useEffect, useState } from "react";
import { useAction, usePlaces } from "../../api/queries.ts";
import type { AlertRulesSearch } from "../../search.ts";
import {
  Button,
  Checkbox,
  counted,
  Dialog,
  ErrorText,
  FormDialog,
  NameInput,
  namedOptions,
  NameLink,
  Select,
  Skeleton,
  TextInput,
  Time,
} from "../../ui/index.ts";
import { CONDITION_LABELS } from "./alert-text.ts";
import { deploymentPage } from "../deployments/deployment-kind.ts";
import { isDeployment } from "./incident-parts.tsx";

interface Draft {
  name: string;
  type: AlertConditionType;
  check: string;
  percent: string;
  /** A metric with its labels, such as `disk_used_bytes{mount=/data}`. */
  metric: string;
  threshold: string;
  /** Empty: the default. */
  period: string;
  minutes: string;
  severity: Severity;
  /** ID of a site or fleet; empty: the whole organization. */
  place: string;
  force: boolean;
}

const EMPTY: Draft = {
  name: "",
  type: "robot_offline",
  check: "",
  percent: "90",
  metric: "",
  threshold: "",
  period: "",
  minutes: "10",
  severity: "warning",
  place: "",
  force: false,
};

function metricOf({ type, metric, threshold, period }: Draft) {
  if (!type.startsWith("metric")) return {};
  const { name, labels } = parseSeries(metric) ?? { name: metric.trim(), labels: {} };
  return {
    metric: name,
    ...(Object.keys(labels).length === 0 ? {} : { metric_labels: labels }),
    ...(type === "metric_absent" ? {} : { threshold: Number(threshold) }),
    ...(period === "" ? {} : { minutes: Number(period) }),
  };
}

function bodyOf(draft: Draft) {
  const { name, type, check, percent, minutes, severity, place, force } = draft;
  return {
    name: name.trim(),
    severity,
    condition: {
      type,
      ...(type === "disk_above" ? { percent: Number(percent) } : {}),
      ...metricOf(draft),
      ...(type === "check_failing" && check.trim() !== "" ? { check: check.trim() } : {}),
    },
    for_seconds: Math.round(60 * Number(minutes)),
    ...(place === "" ? {} : place.startsWith("fleet_") ? { fleet_id: place } : { site_id: place }),
    force,
  };
}

const draftOf = ({ metric = "", condition = "metric_above", place = "" }: AlertRulesSearch): Draft => ({
  ...EMPTY,
  ...(metric === "" ? {} : { type: condition, metric, place }),
});

/** Creates an alert rule. "Test" returns what the rule would match. `initial` fills in a condition on a metric. */
export function RuleDialog({ initial = {}, onClose }: { initial?: AlertRulesSearch; onClose: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(initial));
  const creating = useAction("createAlertRule", { quiet: true, done: "Rule created", onSuccess: onClose });
  const testing = useAction("createAlertRule", { quiet: true });
  const tested = testing.data?.data as unknown as AlertRuleTest | undefined;
  return (
    <FormDialog
      title="New alert rule"
      verb="Create rule"
      sending={creating}
      error={creating.error ?? testing.error}
      locked={draft.name.trim() === ""}
      onClose={onClose}
      onSubmit={() => creating.mutate({ body: bodyOf(draft) })}
    >
      <RuleFields draft={draft} onChange={(part) => setDraft({ ...draft, ...part })} />
      <div className="my-3">
        <Button
          busy={testing.isPending}
          onClick={() => testing.mutate({ body: { ...bodyOf(draft), name: draft.name.trim() || "test", dry_run: true } })}
        >
          Test
        </Button>
        {tested !== undefined && <TestResult result={tested} />}
      </div>
    </FormDialog>
  );
}

function RuleFields({ draft, onChange: change }: { draft: Draft; onChange: (part: Partial<Draft>) => void }) {
  const places = usePlaces();
  return (
    <>
      <NameInput value={draft.name} onValue={(name) => change({ name })} autoFocus />
      <Select
        label="Condition"
        value={draft.type}
        options={ALERT_CONDITIONS.map((value) => ({ value, label: CONDITION_LABELS[value] }))}
        onValue={(type) => change({ type: type as AlertConditionType })}
      />
      {draft.type === "check_failing" && (
        <TextInput label="Check" hint="Empty: any check" maxLength={200} value={draft.check} onValue={(check) => change({ check })} />
      )}
      {draft.type === "disk_above" && (
        <TextInput
          label="Limit (%)"
          type="number"
          min={1}
          max={99}
          required
          value={draft.percent}
          onValue={(percent) => change({ percent })}
        />
      )}
      {draft.type.startsWith("metric") && <MetricFields draft={draft} onChange={change} />}
      <TextInput
        label="Duration (minutes)"
        hint="How long the condition must be true. 0: open the incident immediately"
        type="number"
        min={0}
        max={10_080}
        required
        value={draft.minutes}
        onValue={(minutes) => change({ minutes })}
      />
      <Select
        label="Severity"
        value={draft.severity}
        options={SEVERITIES.map((value) => ({ value, label: value }))}
        onValue={(severity) => change({ severity: severity as Severity })}
      />
      <Select
        label="Scope"
        value={draft.place}
        options={[
          { value: "", label: "Whole organization" },
          ...namedOptions(places.sites).map(({ value, label }) => ({ value, label: `Site ${label}` })),
          ...namedOptions(places.fleets).map(({ value, label }) => ({ value, label: `Fleet ${label}` })),
        ]}
        onValue={(place) => change({ place })}
      />
      <Checkbox label="Accept a rule that matches every robot of its scope" checked={draft.force} onChange={(force) => change({ force })} />
    </>
  );
}

function MetricFields({
  draft: { type, metric, threshold, period },
  onChange,
}: {
  draft: Draft;
  onChange: (part: Partial<Draft>) => void;
}) {
  const is_absent = type === "metric_absent";
  return (
    <>
      <TextInput
        label="Metric"
        hint="A name, also with labels: disk_used_bytes{mount=/data}"
        required
        value={metric}
        onValue={(value) => onChange({ metric: value })}
      />
      {!is_absent && (
        <TextInput
          label={type === "metric_rate_above" ? "Limit (per second)" : "Limit"}
          type="number"
          step="any"
          required
          value={threshold}
          onValue={(value) => onChange({ threshold: value })}
        />
      )}
      <TextInput
        label={is_absent ? "Time without a sample (minutes)" : "Averaged over (minutes)"}
        placeholder={is_absent ? "60" : "5"}
        type="number"
        min={1}
        max={is_absent ? 1_440 : 60}
        hint="Robots send samples every 15 minutes by default."
        value={period}
        onValue={(value) => onChange({ period: value })}
      />
    </>
  );
}

/** Shows what a rule matches now, and what it would have matched in the past. */
function TestResult({ result: { match_count, scope_count, matches, past } }: { result: AlertRuleTest }) {
  return (
    <div role="status" className="mt-2">
      <p>
        {`Matches ${match_count.toLocaleString()}${scope_count === null ? "" : ` of ${scope_count.toLocaleString()} robots`} now.`}
        {past !== null && (
          <>
            {` Matched ${counted(past.match_count, "time")} and would have opened ${counted(past.incident_count, "incident")} since `}
            <Time at={past.since} exact />.
          </>
        )}
      </p>
      <ul className="mt-1 max-h-40 overflow-y-auto" tabIndex={0} aria-label="Matches">
        {matches.map(({ subject_id, robot_name }) => (
          <li key={subject_id}>
            {isDeployment(subject_id) ? (
              <NameLink {...deploymentPage(subject_id)} name={subject_id} className="min-h-6" />
            ) : (
              <NameLink to="/robots/$id" params={{ id: subject_id }} name={robot_name ?? subject_id} className="min-h-6" />
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Tests a stored rule and shows the result. */
export function RuleTestDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const { mutate, data, error } = useAction("testAlertRule", { quiet: true });
  useEffect(() => mutate({ params: { id }, body: {} }), [mutate, id]);
  return (
    <Dialog open onClose={onClose} title="Test of the alert rule">
      {data !== undefined ? <TestResult result={data.data} /> : error === null && <Skeleton rows={2} />}
      <ErrorText error={error} />
    </Dialog>
  );
}
