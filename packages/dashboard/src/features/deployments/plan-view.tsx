import type { ConfigDeploymentPlan, DeploymentPlan, Rollout, TargetSelector } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk/browser";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { api, randomId } from "../../api/client.ts";
import {
  Badge,
  byteText,
  Card,
  type Column,
  cx,
  DataTable,
  ErrorState,
  KeyValue,
  plural,
  Section,
  Skeleton,
  Text,
  Time,
} from "../../ui/index.ts";
import { RobotLink } from "./deployment-parts.tsx";
import { afterWaveText, rangesOf, robots, waveText } from "./deployment-text.ts";
import { type Errors, errorsOf } from "./draft.ts";

interface PlanViewProps {
  planned: Planned;
  /** What the preview needs; undefined if it was requested. */
  missing: string | undefined;
  errors: Errors;
}

/** Previews a deployment: the robots, waves and times that it would have if it were created now. */
export function PlanView({ planned, missing, errors }: PlanViewProps) {
  return (
    <Section title="Preview" actions={<span className="text-xs text-muted">{planned.is_behind ? "Calculating…" : ""}</span>}>
      <div aria-live="polite" aria-busy={planned.is_behind} className={cx(planned.is_behind && planned.plan !== undefined && "opacity-70")}>
        <Body planned={planned} missing={missing} errors={errors} />
      </div>
    </Section>
  );
}

function Body({ planned: { plan, error, retry }, missing, errors }: PlanViewProps) {
  const count = Object.keys(errors).length;
  if (count > 0)
    return (
      <p className="text-bad">
        {count === 1
          ? "One field is invalid: see the message below the field."
          : `${count} fields are invalid: see the messages below them.`}
      </p>
    );
  if (missing !== undefined) return <p className="text-muted">{missing}</p>;
  if (error !== undefined) return <ErrorState error={error} onRetry={retry} />;
  return plan === undefined ? <Skeleton rows={4} /> : <Plan plan={plan} />;
}

function Plan({ plan }: { plan: DeploymentPlan }) {
  if (plan.total === 0)
    return (
      <Notice tone="border-warn bg-warn-soft">
        {plan.selection === null
          ? "The fleet has no robots. To deploy to robots that join it later, set a start time."
          : "No robot matches the selection. To deploy to robots that match later, set a start time."}
      </Notice>
    );
  return (
    <>
      {!plan.artifact_stored && (
        <Notice tone="border-warn bg-warn-soft">The artifact is not uploaded yet. Robots wait for the upload.</Notice>
      )}
      <div className="mb-3 grid grid-cols-2 gap-2 sm:grid-cols-5">
        <Figure value={plan.total.toLocaleString()} label={plural(plan.total, "robot")} />
        <Figure value={byteText(plan.bytes_to_send)} label="to send" />
        <Figure value={plan.offline.toLocaleString()} label="not connected" ink={plan.offline > 0 ? "text-warn" : ""} />
        <Figure value={plan.incompatible.toLocaleString()} label="incompatible" ink={plan.incompatible > 0 ? "text-bad" : ""} />
        <Figure value={plan.already_installed.toLocaleString()} label="up to date" />
      </div>
      <Card className="mb-3">
        <KeyValue
          items={{
            Starts: plan.scheduled_at === null ? "immediately" : <Time at={plan.scheduled_at} exact />,
            Installs: plan.window !== null && (
              <span>
                from <Time at={plan.window.opens_at} exact /> to <Time at={plan.window.closes_at} exact />, and in each later window
              </span>
            ),
            Expires: <Time at={plan.expires_at} exact />,
          }}
        />
      </Card>
      {plan.rollout.waves !== null && <PlanWaves plan={plan} />}
      <PlanRobots plan={plan} />
    </>
  );
}

const Notice = ({ tone, children }: { tone: string; children: ReactNode }) => (
  <p className={cx("mb-3 rounded-md border px-3 py-2", tone)}>{children}</p>
);

const Figure = ({ value, label, ink = "" }: { value: string; label: string; ink?: string }) => (
  <div className="min-w-0 rounded-md border border-line bg-raised px-3 py-2">
    <span className={cx("block truncate font-semibold tabular-nums", ink)}>{value}</span>
    <span className="block text-xs text-muted">{label}</span>
  </div>
);

type WavesPlan = Pick<DeploymentPlan, "scheduled_at" | "rollout"> & {
  /** Without the counts of releases if configs are deployed. */
  waves: readonly (ConfigDeploymentPlan["waves"][number] & Partial<DeploymentPlan["waves"][number]>)[];
};

/** Describes when a wave starts. */
function startText(plan: WavesPlan, wave: number): string {
  if (wave === 0) return plan.scheduled_at === null ? "immediately" : "at the scheduled time";
  const before = plan.rollout.waves?.[wave - 1];
  const after = before === undefined ? "" : afterWaveText(before);
  return `after wave ${wave}${after === "" ? "" : `, ${after}`}`;
}

/** The planned waves in order, each with its robots and when it starts. */
export function PlanWaves({ plan }: { plan: WavesPlan }) {
  const ranges = rangesOf(plan.waves);
  return (
    <ol aria-label="Planned waves" className="mb-3 divide-y divide-line rounded-lg border border-line bg-raised">
      {plan.waves.map(({ wave, total, offline, incompatible = 0, already_installed = 0, bytes_to_send }, index) => (
        <li key={wave} className="px-4 py-2">
          <span className="flex flex-wrap items-baseline justify-between gap-x-3">
            <span className="min-w-0">
              <span className="font-medium">Wave {wave + 1}</span>{" "}
              <span className="text-muted">{waveText(plan.rollout.waves?.[wave] ?? {})}</span>
            </span>
            <span className="tabular-nums">
              {robots(total)}
              {bytes_to_send !== undefined && `, ${byteText(bytes_to_send)}`}
            </span>
          </span>
          <span className="block text-xs text-muted">
            {[
              startText(plan, wave),
              ranges[index],
              ...(offline > 0 ? [`${offline.toLocaleString()} not connected`] : []),
              ...(incompatible > 0 ? [`${incompatible.toLocaleString()} incompatible`] : []),
              ...(already_installed > 0 ? [`${already_installed.toLocaleString()} up to date`] : []),
            ].join("; ")}
          </span>
        </li>
      ))}
    </ol>
  );
}

type PlanRobot = DeploymentPlan["robots"][number];
const robotKey = ({ robot_id }: PlanRobot): string => robot_id;

function stateOf({ incompatible, already_installed, online }: PlanRobot) {
  if (incompatible) return <Badge tone="bad">incompatible</Badge>;
  if (already_installed) return <Badge tone="ok">up to date</Badge>;
  return online ? <Badge tone="info">ready</Badge> : <Badge tone="warn">not connected</Badge>;
}

const ROBOT: Column<PlanRobot> = {
  name: "Robot",
  width: "minmax(0, 1.5fr)",
  cell: ({ robot_id, name }) => <RobotLink id={robot_id} name={name} />,
};
const WAVE: Column<PlanRobot> = { name: "Wave", width: "3.5rem", align: "right", cell: ({ wave }) => wave + 1 };
const REST: readonly Column<PlanRobot>[] = [
  { name: "State", width: "7rem", cell: stateOf },
  { name: "To send", width: "5rem", align: "right", priority: 2, cell: ({ bytes_to_send }) => byteText(bytes_to_send) },
];

function PlanRobots({ plan }: { plan: DeploymentPlan }) {
  return (
    <>
      <DataTable
        label="Robots in rollout order"
        columns={plan.waves.length > 1 ? [ROBOT, WAVE, ...REST] : [ROBOT, ...REST]}
        rows={plan.robots}
        rowKey={robotKey}
        // Half a row at the lower edge shows that the list scrolls.
        height={`${(plan.robots.length > 7 ? 7.5 : plan.robots.length) * 40 + 38}px`}
      />
      {plan.total > plan.robots.length && (
        <p className="mt-1 text-xs text-muted">
          <Text>{`The first ${plan.robots.length.toLocaleString()} of ${robots(plan.total)}.`}</Text>
        </p>
      )}
    </>
  );
}

const PAUSE_MS = 400;
/** Age at which a plan is refetched. Plans become outdated, because they depend on the current state of the robots. */
const STALE_MS = 15_000;

export interface ConfigPlanRequest {
  robot_id?: string;
  fleet_id?: string;
  target_selector?: TargetSelector;
  scheduled_at?: string;
  rollout: Rollout;
  /** Undefined: all namespaces. */
  namespace?: string;
}

export interface PlanRequest extends Omit<ConfigPlanRequest, "namespace"> {
  release: string;
}

export interface Planned<P = DeploymentPlan> {
  plan: P | undefined;
  /** Whether the plan belongs to an earlier input than the current one. */
  is_behind: boolean;
  /** The server's errors by field. */
  errors: Errors;
  /** An error that belongs to no field of the form, or the error of a failed connection. */
  error: unknown;
  retry: () => void;
}

/** Returns the request as JSON, debounced. */
function usePaused(request: object | undefined): string | undefined {
  const text = request === undefined ? undefined : JSON.stringify(request);
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

/** Loads the plan of a deployment after each change of the request. `request` is undefined while the form is incomplete. */
export const usePlan = (request: PlanRequest | undefined): Planned =>
  usePlanOf("planDeployment", request, async (body, signal) => {
    const answer = await api.call("createDeployment", { body: { ...body, dry_run: true }, idempotency_key: randomId(), signal });
    // A dry run has a different response type than the route.
    return (answer.body as unknown as { data: DeploymentPlan }).data;
  });

/** Loads the plan of a config deployment, like `usePlan`. */
export const useConfigPlan = (request: ConfigPlanRequest | undefined): Planned<ConfigDeploymentPlan> =>
  usePlanOf("planConfigDeployment", request, async (body, signal) => {
    const answer = await api.call("createConfigDeployment", { body: { ...body, dry_run: true }, idempotency_key: randomId(), signal });
    return (answer.body as unknown as { data: ConfigDeploymentPlan }).data;
  });

function usePlanOf<R extends object, P extends DeploymentPlan | ConfigDeploymentPlan>(
  name: string,
  request: R | undefined,
  read: (request: R, signal: AbortSignal) => Promise<P>,
): Planned<P> {
  const asked = usePaused(request);
  const result = useQuery({
    queryKey: [name, asked] as const,
    queryFn: ({ signal }): Promise<DeploymentPlan | ConfigDeploymentPlan> => read(JSON.parse(asked ?? "{}") as R, signal),
    enabled: asked !== undefined,
    placeholderData: keepPreviousData,
    staleTime: STALE_MS,
    retry: false,
  });
  const { error } = result;
  const errors = error instanceof ApiError ? errorsOf(error.message) : undefined;
  const is_behind = request !== undefined && (asked !== JSON.stringify(request) || result.isPlaceholderData || result.isPending);
  return {
    plan: request === undefined || error !== null ? undefined : (result.data as P | undefined),
    is_behind,
    errors: is_behind ? {} : (errors ?? {}),
    error: errors === undefined && !is_behind ? (error ?? undefined) : undefined,
    retry: () => void result.refetch(),
  };
}
