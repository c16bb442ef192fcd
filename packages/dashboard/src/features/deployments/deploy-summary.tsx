import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { randomId } from "../../api/client.ts";
import { mayPass } from "../../api/query-client.ts";
import { usePlaces, useAction } from "../../api/queries.ts";
import { Button, Card, Command, KeyValue, Section, Text, Time } from "../../ui/index.ts";
import { failureText, robots, waveSizesText } from "./deployment-text.ts";
import type { Planned, PlanRequest } from "./plan-view.tsx";
import { type Target, targetFields } from "./target.ts";

interface SummaryProps {
  /** Undefined while the form is incomplete or invalid. */
  request: PlanRequest | undefined;
  planned: Planned;
  /** Tag of the selected release; undefined while it is not loaded. */
  tag: string | undefined;
  /** Undefined: no release is selected. */
  release_state: ReleaseLoad | undefined;
  /** Undefined: no target is selected. */
  target: Target | undefined;
}

export type ReleaseLoad = "loaded" | "loading" | "failed";

const NOT_SELECTED = <span className="text-muted">not selected</span>;

/** What the form deploys, to which robots, in which waves and from when, with the button that deploys it. */
export function DeploySummary({ command, ...props }: SummaryProps & { command: string }) {
  const { request, planned, tag, release_state, target } = props;
  const deploy = useDeploy(props);
  return (
    <Section title="Summary">
      <Card className="mb-3">
        <KeyValue
          items={{
            Release: releaseText(tag, release_state),
            ...useDetails(request, target, request === undefined ? undefined : planned.plan),
          }}
        />
        <div className="mt-4 max-lg:hidden">
          <NoPreview {...{ request, planned }} />
          <DeployButton {...deploy} className="w-full" />
        </div>
      </Card>
      <Command>{command}</Command>
    </Section>
  );
}

/** The button and a short summary, always visible at the lower edge of narrow screens. */
export function DeployBar(props: SummaryProps) {
  const { request, planned } = props;
  return (
    <div className="sticky -bottom-4 z-20 -mx-4 -mb-4 border-t border-line bg-raised px-4 py-3 md:-bottom-5 md:-mx-6 md:-mb-5 md:px-6 lg:hidden">
      {request !== undefined && planned.plan !== undefined && <p className="mb-2 truncate text-xs text-muted">{shortText(planned.plan)}</p>}
      <NoPreview {...props} />
      <DeployButton {...useDeploy(props)} />
    </div>
  );
}

/** The reason why the button is disabled although the form is complete. */
const NoPreview = ({ request, planned: { error } }: Pick<SummaryProps, "request" | "planned">) =>
  request !== undefined &&
  mayPass(error) && <p className="mb-2 text-xs text-bad">The preview could not be loaded. You can deploy when it is loaded.</p>;

const wavesOf = ({ rollout, waves }: DeploymentPlan): string => (rollout.waves === null ? "all at once" : waveSizesText(waves));

const shortText = (plan: DeploymentPlan): string =>
  `${robots(plan.total)}; ${wavesOf(plan)}; starts ${plan.scheduled_at === null ? "now" : "at the scheduled time"}`;

function releaseText(tag: string | undefined, state: ReleaseLoad | undefined) {
  if (tag !== undefined) return <Text>{tag}</Text>;
  return state === undefined ? NOT_SELECTED : <span className="text-muted">{state === "failed" ? "not loaded" : "…"}</span>;
}

/** Returns the rows of the summary below the release. */
function useDetails(request: PlanRequest | undefined, target: Target | undefined, plan: DeploymentPlan | undefined) {
  const { fleet_names } = usePlaces();
  if (target === undefined) return { Target: NOT_SELECTED };
  const { fleet_id, robot_id }: Partial<PlanRequest> = request ?? targetFields(target);
  const name = fleet_id === undefined ? plan?.robots[0]?.name : fleet_names.get(fleet_id);
  const Target = (
    <span>
      {fleet_id !== undefined && plan !== undefined && `${robots(plan.total)} of `}
      <Text>
        {plan?.selection ??
          name ??
          (fleet_id !== undefined ? "the selected fleet" : robot_id !== undefined ? "the selected robot" : "a selection")}
      </Text>
      {plan !== undefined && plan.offline > 0 && <span className="text-warn">, {plan.offline.toLocaleString()} not connected</span>}
    </span>
  );
  if (plan === undefined) return { Target };
  return {
    Target,
    Waves: robot_id === undefined && wavesOf(plan),
    Starts: plan.scheduled_at === null ? "immediately" : <Time at={plan.scheduled_at} exact />,
    "On failure": failureText(plan.rollout) ?? false,
  };
}

/** Returns the state of the button that deploys. */
function useDeploy({ request, planned: { plan, is_behind }, tag, release_state }: SummaryProps) {
  const navigate = useNavigate();
  const create = useAction("createDeployment", {
    onSuccess: ({ data }) => void navigate({ to: "/deployments/$id", params: { id: data.id } }),
  });
  const is_ready = request !== undefined && plan !== undefined && !is_behind && (plan.total > 0 || plan.scheduled_at !== null);
  return {
    text: tag === undefined ? noReleaseText(release_state) : buttonText(tag, plan?.total, request),
    is_ready,
    is_sending: create.isPending,
    onDeploy: () => request !== undefined && create.mutate({ body: request, idempotency_key: randomId() }),
  };
}

const DeployButton = ({ text, is_ready, is_sending, onDeploy, className = "" }: ReturnType<typeof useDeploy> & { className?: string }) => (
  <Button
    look="primary"
    className={`!h-auto min-h-9 max-w-full py-1.5 !whitespace-normal [overflow-wrap:anywhere] ${className}`}
    disabled={!is_ready}
    busy={is_sending}
    onClick={onDeploy}
  >
    {text}
  </Button>
);

/** Returns the text of the button while there is no release. */
function noReleaseText(state: ReleaseLoad | undefined): string {
  if (state === undefined) return "Choose a release first";
  return state === "failed" ? "The release is not loaded" : "Loading the release…";
}

function buttonText(tag: string, total: number | undefined, request: PlanRequest | undefined): string {
  if (request === undefined) return `Deploy ${tag}`;
  const to = total === undefined || total === 0 ? "" : ` to ${robots(total)}`;
  if (total === 0 && request.scheduled_at === undefined) return "No robots to deploy to";
  return request.scheduled_at === undefined ? `Deploy ${tag}${to}` : `Schedule ${tag}${to}`;
}
