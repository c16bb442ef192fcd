import type { Define } from "../../command.ts";
import { line } from "../../text.ts";

interface Step {
  route: "pauseDeployment" | "promoteDeployment" | "resumeDeployment";
  description: string;
  /** The resulting state, for the output. */
  done: string;
  /** The suggested next command. */
  next: string;
}

/** Defines a command that takes a deployment's id and changes its state. */
const step = ({ route, description, done, next }: Step): { define: Define } => ({
  define: (command, act) => {
    command
      .description(description)
      .argument("<id>", "Id of the deployment")
      .action(
        act<[string]>(async (context, id) => {
          const answer = await (await context.client())[route]({ params: { id }, idempotency_key: context.idempotencyKey() });
          await context.out.result(answer, () => context.out.line(line`Deployment ${id} ${done}: ${next} ${id}`));
        }),
      );
  },
});

export const pause = step({
  route: "pauseDeployment",
  description: "Pause a deployment: in-progress robots finish; no new ones start.",
  done: "is paused. Resume it",
  next: "rf deployments resume",
});

export const resume = step({
  route: "resumeDeployment",
  description: "Resume a paused deployment. If it exceeded its failure threshold, it stops again at the next failure.",
  done: "is resumed. Follow it",
  next: "rf deployments watch",
});

export const promote = step({
  route: "promoteDeployment",
  description: "Start the next wave now, skipping the remaining soak time and a manual gate.",
  done: "is promoted to its next wave. Follow it",
  next: "rf deployments watch",
});
