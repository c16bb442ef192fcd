import { systemClock } from "@roamfleet/clock";
import { Fleet } from "../../packages/swarm/src/fleet.ts";
import { swarmLog } from "../../packages/swarm/src/run.ts";
import type { RobotSamples, SampleOptions } from "../../packages/swarm/src/samples.ts";
import { readFleetOptions, type SwarmFlags } from "../../packages/swarm/src/options.ts";

/**
 * A swarm that cuts all its links on SIGUSR2 and prints each change of their number. Its flags are JSON in the first argument. With
 * `samples`, it also prints its numbers of collected samples and of waiting and dropped chunks, and on SIGHUP collects no more.
 */
const LOOK_MS = 250;
/** A chunk waits some milliseconds for its acknowledgement. */
const SAMPLES_LOOK_MS = 10;
const ending = new AbortController();
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { samples, ...flags } = JSON.parse(process.argv[2] ?? "{}") as SwarmFlags & { samples?: SampleOptions };
const fleet = new Fleet(
  { ...readFleetOptions(flags), samples },
  {
    clock: systemClock,
    log: swarmLog(say, false, systemClock),
    signal: ending.signal,
    waiting: (reason) => say(`waiting for the server: ${reason}`),
  },
);
let said = -1;
process.on("SIGUSR2", () => {
  for (const robot of fleet.robots) robot.cut();
  // Print 0, so that the previous count is not read as the number of reconnected robots.
  process.stdout.write(`connected ${(said = 0)}\ncut\n`);
});
process.on("SIGHUP", () => {
  for (const robot of fleet.robots) robot.samples?.stop();
  printSamples();
  process.stdout.write("collected all\n");
});

let samples_said = "";

/** Prints the numbers of samples and chunks if they have changed. */
function printSamples(): void {
  const all = fleet.robots.flatMap((robot) => robot.samples ?? []);
  const sum = (read: (one: RobotSamples) => number): number => all.reduce((count, one) => count + read(one), 0);
  const text = `samples ${sum((one) => one.collected)} ${sum(({ queue }) => queue.size)} ${sum(({ queue }) => queue.dropped)}\n`;
  if (text !== samples_said) process.stdout.write(text);
  samples_said = text;
}

const sampling = samples === undefined ? undefined : setInterval(printSamples, SAMPLES_LOOK_MS);
const reporting = setInterval(() => {
  if (fleet.connected === said) return;
  said = fleet.connected;
  process.stdout.write(`connected ${said}\n`);
}, LOOK_MS);
process.once("SIGTERM", () => {
  ending.abort();
  clearInterval(reporting);
  clearInterval(sampling);
  void fleet.stop().finally(() => process.exit(0));
});
await fleet.start();
