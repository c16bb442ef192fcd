import type { Define } from "../../command.ts";
import { line } from "../../text.ts";

interface Step {
  route: "pauseDeployment" | "promoteDeployment" | "resumeDeployment";
  description: string;
  /** What is said of the deployment when it is done. */
  done: string;
  /** The command to go on with. */
  next: string;
}

/** A command that asks one thing of a deployment, by its id alone. */
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
  description: "Pause a deployment: robots that have it finish, nobody else gets it.",
  done: "is paused. Go on with it",
  next: "rf deployments resume",
});

export const resume = step({
  route: "resumeDeployment",
  description: "Resume a paused deployment. One that was past its failure threshold stops again at the next failure.",
  done: "goes on. Follow it",
  next: "rf deployments watch",
});

export const promote = step({
  route: "promoteDeployment",
  description: "Open the next wave now: what is left of the soak time and a closed gate are skipped.",
  done: "goes on to its next wave. Follow it",
  next: "rf deployments watch",
});
