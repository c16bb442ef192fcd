import { systemClock } from "@roamfleet/clock";
import { endProcess, LineOutput } from "@roamfleet/clock/line-output";
import { Command } from "commander";
import { readEnrollKey } from "./config.ts";
import { SWARM_FLAGS, type SwarmFlags } from "./options.ts";
import { runSwarm } from "./run.ts";

const SERVER_DEFAULT = "http://127.0.0.1:7600";

const program = new Command("roamfleet swarm").description("run simulated robots against a server, to try a rollout or to load-test it");
for (const { flags, meaning, repeatable } of SWARM_FLAGS) {
  if (repeatable === true) program.option(flags, meaning, (one: string, all: string[] | undefined) => [...(all ?? []), one]);
  else program.option(flags, meaning);
}
const flags = program.parse().opts<SwarmFlags>();
const output = new LineOutput(process.stdout);
output.onGap = (lines) => output.write(`dropped ${lines} lines because stdout was not read\n`);
const stopped = new AbortController();
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => stopped.abort(signal));
const code = await runSwarm({
  flags: { ...flags, server: flags.server ?? SERVER_DEFAULT, key: flags.key ?? readEnrollKey() ?? "" },
  clock: systemClock,
  screen: {
    is_terminal: process.stdout.isTTY,
    columns: () => process.stdout.columns || 80,
    write: (text) => output.write(text),
  },
  complain: (line) => void process.stderr.write(`roamfleet: ${line}\n`),
  signal: stopped.signal,
});
await endProcess(code);
