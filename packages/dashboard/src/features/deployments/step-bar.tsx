import type { ConfigDeployment, Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { FastForward, type LucideIcon, Pause, Play, RotateCcw, Undo2 } from "lucide-react";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button, ConfirmDialog, copyAsRf, Menu, notifyDone, shellLine, Tooltip } from "../../ui/index.ts";
import { isConfigDeployment } from "./deployment-kind.ts";
import { type Step, type StepName, stepsOf } from "./steps.ts";

const ICONS: Record<StepName, LucideIcon | undefined> = {
  promote: FastForward,
  pause: Pause,
  resume: Play,
  retry: RotateCcw,
  rollback: Undo2,
  cancel: undefined,
  cancel_rollback: undefined,
};

/** Actions that continue a deployment. The first available one is the primary action. */
const LEADING: readonly StepName[] = ["resume", "promote", "retry"];

/** Loads the actions of a deployment. `ask` opens the dialog of an action; render `dialog`. */
function useStepBar(deployment: Deployment | ConfigDeployment, waves: readonly DeploymentWave[]) {
  const may_change = useMay("operator");
  const [asked, setAsked] = useState<StepName>();
  const take = useSteps(deployment.id, () => setAsked(undefined));
  const steps = stepsOf(deployment, waves, Date.now()).map((step) =>
    may_change ? step : { ...step, why_not: "This requires the operator role." },
  );
  const by: Partial<Record<StepName, Step>> = Object.fromEntries(steps.map((step) => [step.name, step]));
  const leading = LEADING.find((name) => isAvailable(by[name]));
  // Look the action up again on each rendering, so that an open dialog shows current counts.
  const step = asked === undefined ? undefined : by[asked];
  const dialog = step !== undefined && (
    <ConfirmDialog
      open
      onClose={() => setAsked(undefined)}
      title={step.title}
      consequence={step.why_not === undefined ? step.consequence : step.why_not}
      verb={step.verb}
      dismiss={step.danger && step.name !== "rollback" ? "Keep deployment" : "Cancel"}
      danger={step.danger}
      command={step.command}
      busy={take.is_busy}
      onConfirm={() => take.act(step.name)}
    />
  );
  return { by, leading, ask: setAsked, dialog };
}

const isStep = (step: Step | undefined): step is Step => step !== undefined;
const isAvailable = (step: Step | undefined): step is Step => step !== undefined && step.why_not === undefined;

/** The actions of a deployment. Unavailable ones are disabled, with the reason as tooltip. */
export function StepBar({ deployment, waves }: { deployment: Deployment | ConfigDeployment; waves: readonly DeploymentWave[] }) {
  const { by, leading, ask, dialog } = useStepBar(deployment, waves);
  const { id } = deployment;
  const shown = [
    ...(deployment.wave_count > 1 ? [by.promote] : []),
    deployment.status === "paused" ? by.resume : by.pause,
    by.retry,
    by.rollback,
  ].filter(isStep);
  const copied = isConfigDeployment(id)
    ? [copyAsRf(shellLine("rf", "configs", "events", id)), copyAsRf(shellLine("rf", "configs", "waves", id), "Copy rf waves command")]
    : [
        copyAsRf(shellLine("rf", "deployments", "show", id)),
        copyAsRf(shellLine("rf", "deployments", "watch", id), "Copy rf watch command"),
      ];
  return (
    <>
      {shown.map((one) => (
        <StepButton key={one.name} step={one} is_leading={one.name === leading} onAsk={() => ask(one.name)} />
      ))}
      <Menu
        label="More"
        entries={[
          ...[by.cancel, by.cancel_rollback].filter(isStep).map((one) => ({
            label: one.why_not === undefined ? `${one.label}…` : `${one.label}: ${one.why_not}`,
            danger: true,
            disabled: one.why_not !== undefined,
            sends: true,
            onSelect: () => ask(one.name),
          })),
          ...copied,
        ]}
      />
      {dialog}
    </>
  );
}

/** The available actions on a deployment that waits for a decision, for lists. */
export function WaitingSteps({ deployment, waves }: { deployment: Deployment | ConfigDeployment; waves: readonly DeploymentWave[] }) {
  const { by, leading, ask, dialog } = useStepBar(deployment, waves);
  const shown = [by.resume, by.promote, by.rollback, by.cancel && { ...by.cancel, label: "Cancel" }].filter(isAvailable);
  return (
    <>
      {shown.map((one) => (
        <StepButton key={one.name} step={one} is_leading={one.name === leading} onAsk={() => ask(one.name)} />
      ))}
      {dialog}
    </>
  );
}

function StepButton({ step, is_leading, onAsk }: { step: Step; is_leading: boolean; onAsk: () => void }) {
  const button = (
    <Button
      icon={ICONS[step.name]}
      look={is_leading ? "primary" : "secondary"}
      {...(step.why_not === undefined ? { busy: false } : {})}
      aria-disabled={step.why_not !== undefined}
      onClick={() => step.why_not === undefined && onAsk()}
    >
      {step.label}
    </Button>
  );
  return step.why_not === undefined ? button : <Tooltip text={step.why_not}>{button}</Tooltip>;
}

/** Runs actions. After an action that creates a deployment, opens its page. */
function useSteps(id: string, onDone: () => void): { act: (step: StepName) => void; is_busy: boolean } {
  const navigate = useNavigate();
  const done = { onSuccess: onDone };
  const go = ({ data }: { data: Deployment }): void => {
    onDone();
    if (data.id === id) return;
    notifyDone("Deployment created");
    void navigate({ to: "/deployments/$id", params: { id: data.id } });
  };
  const pause = useAction("pauseDeployment", { ...done, done: "Deployment paused" });
  const resume = useAction("resumeDeployment", { ...done, done: "Deployment resumed" });
  const promote = useAction("promoteDeployment", { ...done, done: "Next wave opened" });
  const cancel = useAction("cancelDeployment", { ...done, done: "Deployment cancelled" });
  const roll_back = useAction("rollBackDeployment", { onSuccess: go });
  const retry = useAction("retryDeployment", { onSuccess: go });
  const pause_config = useAction("pauseConfigDeployment", { ...done, done: "Config deployment paused" });
  const resume_config = useAction("resumeConfigDeployment", { ...done, done: "Config deployment resumed" });
  const promote_config = useAction("promoteConfigDeployment", { ...done, done: "Next wave opened" });
  const cancel_config = useAction("cancelConfigDeployment", { ...done, done: "Config deployment cancelled" });
  const params = { id };
  const is_config = isConfigDeployment(id);
  const acts: Record<StepName, () => void> = {
    pause: () => (is_config ? pause_config : pause).mutate({ params }),
    resume: () => (is_config ? resume_config : resume).mutate({ params }),
    promote: () => (is_config ? promote_config : promote).mutate({ params }),
    cancel: () => (is_config ? cancel_config.mutate({ params }) : cancel.mutate({ params, body: { mode: "finish" } })),
    cancel_rollback: () => cancel.mutate({ params, body: { mode: "rollback" } }),
    rollback: () => roll_back.mutate({ params }),
    retry: () => retry.mutate({ params, body: {} }),
  };
  const all = [pause, resume, promote, cancel, roll_back, retry, pause_config, resume_config, promote_config, cancel_config];
  const is_busy = all.some(({ isPending }) => isPending);
  return { act: (step) => acts[step](), is_busy };
}
