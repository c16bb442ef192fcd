import { Argument } from "commander";
import { addExamples, type Define } from "../command.ts";
import { COMPLETION_SCRIPTS, type Shell, SHELLS } from "../completion/scripts.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Print a script that teaches a shell to complete commands, flags, values, and the ids and names of what the service has. " +
        "`rf help completion` says where it goes.",
    )
    .addArgument(new Argument("<shell>", "The shell").choices(SHELLS))
    .action(act<[Shell]>(async (_context, shell) => void process.stdout.write(COMPLETION_SCRIPTS[shell])));
  addExamples(command, ["source <(rf completion bash)", "rf completion fish | source"]);
};
