import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { FastForward, type LucideIcon, Pause, Play, RotateCcw, Undo2 } from "lucide-react";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button, ConfirmDialog, copyAsRf, Menu, notifyDone, shellLine, Tooltip } from "../../ui/index.ts";
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
function useStepBar(deployment: Deployment, waves: readonly DeploymentWave[]) {
  const may_change = useMay("operator");
  const [asked, setAsked] = useState<StepName>();
  const take = useSteps(deployment.id, () => setAsked(undefined));
  const steps = stepsOf(deployment, waves, Date.now()).map((step) =>
    may_change ? step : { ...step, why_not: "This requires the operator role." },
  );
  const by = Object.fromEntries(steps.map((step) => [step.name, step])) as Record<StepName, Step>;
  const leading = LEADING.find((name) => by[name].why_not === undefined);
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

/** The actions of a deployment. Unavailable ones are disabled, with the reason as tooltip. */
export function StepBar({ deployment, waves }: { deployment: Deployment; waves: readonly DeploymentWave[] }) {
  const { by, leading, ask, dialog } = useStepBar(deployment, waves);
  const shown = [
    ...(deployment.wave_count > 1 ? [by.promote] : []),
    deployment.status === "paused" ? by.resume : by.pause,
    by.retry,
    by.rollback,
  ];
  return (
    <>
      {shown.map((one) => (
        <StepButton key={one.name} step={one} is_leading={one.name === leading} onAsk={() => ask(one.name)} />
      ))}
      <Menu
        label="More"
        entries={[
          ...[by.cancel, by.cancel_rollback].map((one) => ({
            label: one.why_not === undefined ? `${one.label}…` : `${one.label}: ${one.why_not}`,
            danger: true,
            disabled: one.why_not !== undefined,
            onSelect: () => ask(one.name),
          })),
          copyAsRf(shellLine("rf", "deployments", "show", deployment.id)),
          copyAsRf(shellLine("rf", "deployments", "watch", deployment.id), "Copy rf watch command"),
        ]}
      />
      {dialog}
    </>
  );
}

/** The available actions on a deployment that waits for a decision, for lists. */
export function WaitingSteps({ deployment, waves }: { deployment: Deployment; waves: readonly DeploymentWave[] }) {
  const { by, leading, ask, dialog } = useStepBar(deployment, waves);
  const shown = [by.resume, by.promote, by.rollback, { ...by.cancel, label: "Cancel" }].filter(({ why_not }) => why_not === undefined);
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
  const params = { id };
  const acts: Record<StepName, () => void> = {
    pause: () => pause.mutate({ params }),
    resume: () => resume.mutate({ params }),
    promote: () => promote.mutate({ params }),
    cancel: () => cancel.mutate({ params, body: { mode: "finish" } }),
    cancel_rollback: () => cancel.mutate({ params, body: { mode: "rollback" } }),
    rollback: () => roll_back.mutate({ params }),
    retry: () => retry.mutate({ params, body: {} }),
  };
  const is_busy = [pause, resume, promote, cancel, roll_back, retry].some(({ isPending }) => isPending);
  return { act: (step) => acts[step](), is_busy };
}
