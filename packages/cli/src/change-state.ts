import { type CommandDefinition, requestCommand } from "./command.ts";
import { line } from "./text.ts";

type Route = "pause" | "promote" | "resume";

interface StateChange {
  description: string;
  /** The new state, as the end of a sentence, and what to do next. */
  done: string;
  /** The command that does it. */
  next: string;
}

/** Defines a command that changes the state of a deployment. */
export const changeState = (
  route: `${Route}Deployment` | `${Route}ConfigDeployment`,
  of: "deployment" | "config deployment",
  { description, done, next }: StateChange,
): CommandDefinition =>
  requestCommand(
    description,
    (command) => command.argument("<id>", `ID of the ${of}`),
    async (client, context, id: string) => client[route]({ params: { id }, idempotency_key: context.idempotencyKey() }),
    ({ data }) => line`${of === "deployment" ? "Deployment" : "Config deployment"} ${data.id} ${done}: rf ${next} ${data.id}`,
  );
