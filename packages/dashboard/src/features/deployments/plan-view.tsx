import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import type { ReactNode } from "react";
import { Badge, Card, byteText, type Column, cx, DataTable, ErrorState, KeyValue, Section, Skeleton, Text, Time } from "../../ui/index.ts";
import type { Errors } from "./draft.ts";
import { RobotLink } from "./parts.tsx";
import { afterWaveText, reachOf, robots, waveText } from "./rollout-text.ts";
import type { Planned } from "./use-plan.ts";

/** What the deployment would do, if it were made now. */
export function PlanView({ planned, is_asked, errors }: { planned: Planned; is_asked: boolean; errors: Errors }) {
  return (
    <Section title="What it would do" actions={<span className="text-xs text-muted">{planned.is_behind ? "planning…" : ""}</span>}>
      <div aria-live="polite" aria-busy={planned.is_behind} className={cx(planned.is_behind && planned.plan !== undefined && "opacity-70")}>
        <Body planned={planned} is_asked={is_asked} errors={errors} />
      </div>
    </Section>
  );
}

function Body({ planned: { plan, error, retry }, is_asked, errors }: { planned: Planned; is_asked: boolean; errors: Errors }) {
  const count = Object.keys(errors).length;
  if (count > 0)
    return (
      <p className="text-bad">{count === 1 ? "One field is not right yet." : `${count} fields are not right yet.`} See beside them.</p>
    );
  if (!is_asked) return <p className="text-muted">Choose a release and whom it is for. Nothing is started before you say so.</p>;
  if (error !== undefined) return <ErrorState error={error} onRetry={retry} />;
  return plan === undefined ? <Skeleton rows={4} /> : <Plan plan={plan} />;
}

function Plan({ plan }: { plan: DeploymentPlan }) {
  if (plan.total === 0)
    return (
      <Notice tone="border-warn bg-warn-soft">
        No robot is in the fleet now. Those that enrol before it starts would get it; made now, it would end at once.
      </Notice>
    );
  return (
    <>
      {!plan.artifact_stored && (
        <Notice tone="border-warn bg-warn-soft">The artifact is not uploaded yet: robots wait for it, and go on when it is there.</Notice>
      )}
      <div className="mb-3 grid grid-cols-2 gap-2 sm:grid-cols-5">
        <Figure value={plan.total.toLocaleString()} label="robots" />
        <Figure value={byteText(plan.bytes_to_send)} label="to send" />
        <Figure value={plan.offline.toLocaleString()} label="offline" ink={plan.offline > 0 ? "text-warn" : ""} />
        <Figure value={plan.incompatible.toLocaleString()} label="cannot run it" ink={plan.incompatible > 0 ? "text-bad" : ""} />
        <Figure value={plan.already_installed.toLocaleString()} label="have it" />
      </div>
      <Card className="mb-3">
        <KeyValue
          items={[
            ["Starts", plan.scheduled_at === null ? "at once" : <Time key="at" at={plan.scheduled_at} exact />],
            plan.window !== null && [
              "Installs",
              <span key="window">
                from <Time at={plan.window.opens_at} exact /> to <Time at={plan.window.closes_at} exact />, and in each window after it
              </span>,
            ],
            ["Gives up", <Time key="expires" at={plan.expires_at} exact />],
          ]}
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
    <span className="block truncate text-xs text-muted">{label}</span>
  </div>
);

/** When a wave begins, in words. */
function startText(plan: DeploymentPlan, wave: number): string {
  if (wave === 0) return plan.scheduled_at === null ? "at once" : "at its time";
  const before = plan.rollout.waves?.[wave - 1];
  const after = before === undefined ? "" : afterWaveText(before);
  return `when wave ${wave} has passed${after === "" ? "" : ` and ${after.replace("soaks", "soaked").replace("waits", "waited")}`}`;
}

function PlanWaves({ plan }: { plan: DeploymentPlan }) {
  const reach = reachOf(plan.waves);
  return (
    <ol aria-label="Waves of the plan" className="mb-3 divide-y divide-line rounded-lg border border-line bg-raised">
      {plan.waves.map(({ wave, total, offline, incompatible, already_installed, bytes_to_send }, index) => (
        <li key={wave} className="px-4 py-2">
          <span className="flex flex-wrap items-baseline justify-between gap-x-3">
            <span className="min-w-0">
              <span className="font-medium">Wave {wave + 1}</span>{" "}
              <span className="text-muted">{waveText(plan.rollout.waves?.[wave] ?? {})}</span>
            </span>
            <span className="tabular-nums">
              {robots(total)}, {byteText(bytes_to_send)}
            </span>
          </span>
          <span className="block text-xs text-muted">
            {[
              startText(plan, wave),
              `${reach[index]?.percent ?? 0} % with those before`,
              ...(offline > 0 ? [`${offline.toLocaleString()} offline`] : []),
              ...(incompatible > 0 ? [`${incompatible.toLocaleString()} cannot run it`] : []),
              ...(already_installed > 0 ? [`${already_installed.toLocaleString()} have it`] : []),
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
  if (incompatible) return <Badge tone="bad">cannot run it</Badge>;
  if (already_installed) return <Badge tone="ok">has it</Badge>;
  return online ? <Badge tone="info">ready</Badge> : <Badge tone="warn">offline</Badge>;
}

const ROBOT: Column<PlanRobot> = {
  name: "Robot",
  width: "minmax(0, 1.5fr)",
  cell: ({ robot_id, name }) => <RobotLink id={robot_id} name={name} />,
};
const WAVE: Column<PlanRobot> = { name: "Wave", width: "3.5rem", align: "right", cell: ({ wave }) => wave + 1 };
const REST: readonly Column<PlanRobot>[] = [
  { name: "Now", width: "7rem", cell: stateOf },
  { name: "To send", width: "5rem", align: "right", priority: 2, cell: ({ bytes_to_send }) => byteText(bytes_to_send) },
];

function PlanRobots({ plan }: { plan: DeploymentPlan }) {
  return (
    <>
      <DataTable
        label="Robots of the plan, in the order in which they go"
        columns={plan.waves.length > 1 ? [ROBOT, WAVE, ...REST] : [ROBOT, ...REST]}
        rows={plan.robots}
        rowKey={robotKey}
        height={`${Math.min(7, plan.robots.length) * 40 + 38}px`}
      />
      {plan.total > plan.robots.length && (
        <p className="mt-1 text-xs text-muted">
          <Text>{`The first ${plan.robots.length.toLocaleString()} of ${robots(plan.total)}.`}</Text>
        </p>
      )}
    </>
  );
}
