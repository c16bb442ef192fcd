import { Argument } from "commander";
import { defineCommand } from "../command.ts";
import { COMPLETION_SCRIPTS, type Shell, SHELLS } from "../completion/scripts.ts";

export const completion = defineCommand<[Shell]>(
  "Print a script that lets a shell complete commands, flags, values, and the ids and names of objects on the service. " +
    "Each press of Tab runs rf, which queries the service. If no response arrives within 1.5 seconds (ROAMFLEET_COMPLETION_MS), rf suggests nothing.",
  (command) => command.addArgument(new Argument("<shell>", "Shell that runs the script").choices(SHELLS)),
  async (_context, shell) => void process.stdout.write(COMPLETION_SCRIPTS[shell]),
  [
    "source <(rf completion bash)      # in ~/.bashrc",
    "source <(rf completion zsh)       # in ~/.zshrc, after compinit",
    "rf completion fish > ~/.config/fish/completions/rf.fish",
    "rf robots show arm-1<Tab>         # completes a name to its id",
  ],
);
