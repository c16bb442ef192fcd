import { systemClock } from "@roamfleet/clock";
import { Fleet } from "../../packages/swarm/src/fleet.ts";
import { swarmLog } from "../../packages/swarm/src/run.ts";
import { readFleetOptions, type SwarmFlags } from "../../packages/swarm/src/options.ts";

/** A swarm that cuts all its links on SIGUSR2 and prints each change of their number. Its flags are JSON in the first argument. */
const LOOK_MS = 250;
const ending = new AbortController();
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const options = readFleetOptions(JSON.parse(process.argv[2] ?? "{}") as SwarmFlags);
const fleet = new Fleet(options, {
  clock: systemClock,
  log: swarmLog(say, false, systemClock),
  signal: ending.signal,
  waiting: (reason) => say(`waiting for the server: ${reason}`),
});
let said = -1;
process.on("SIGUSR2", () => {
  for (const robot of fleet.robots) robot.cut();
  // Print 0, so that the previous count is not read as the number of reconnected robots.
  process.stdout.write(`connected ${(said = 0)}\ncut\n`);
});
const reporting = setInterval(() => {
  if (fleet.connected === said) return;
  said = fleet.connected;
  process.stdout.write(`connected ${said}\n`);
}, LOOK_MS);
process.once("SIGTERM", () => {
  ending.abort();
  clearInterval(reporting);
  void fleet.stop().finally(() => process.exit(0));
});
await fleet.start();
