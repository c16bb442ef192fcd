import { parseArgs } from "node:util";
import { type Plant, PLANTS } from "./server.ts";
import { type Broken, simulate, type Tally } from "./simulate.ts";

const HELP = `Runs schedules of a simulated fleet and checks the rules of deployments after every step.

  npm run simulate -- [--seed N] [--schedules M] [--whole] [--plant FAULT] [--trace]

  --seed N        the first schedule's seed (default 1); the next has N + 1
  --schedules M   how many (default 20,000; whole: 300)
  --whole         the server's own code on a real PostgreSQL, instead of its decisions alone in memory
  --plant FAULT   a server with this fault, which must be found: ${PLANTS.join(", ")}
  --trace         what happened in a schedule that broke a rule, step by step
  --pairs         how often each event met each state

Exit: 0 clean; 1 a rule was broken, or, from 20,000 schedules on (whole: 300), a pair of state and event that can meet never did.
With --plant: 0 when the fault was found, 1 when it was not.`;

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    schedules: { type: "string" },
    whole: { type: "boolean", default: false },
    plant: { type: "string" },
    trace: { type: "boolean", default: false },
    pairs: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
  },
});

const SCHEDULES = { pure: 20_000, whole: 300 };

function count(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`--${name} is a whole number from 1 on, not ${JSON.stringify(text)}`);
  return value;
}

function plantOf(name: string | undefined): Plant | undefined {
  const plant = PLANTS.find((one) => one === name);
  if (name !== undefined && plant === undefined) throw new Error(`--plant is one of ${PLANTS.join(", ")}`);
  return plant;
}

function printBroken({ seed, step, rule, trace }: Broken): void {
  console.log(`seed ${seed} broke a rule at step ${step}: ${rule}`);
  if (values.trace) console.log(trace.map((line) => `  ${line}`).join("\n"));
}

function report(tally: Tally, mode: "pure" | "whole"): number {
  const { schedules, steps, seconds, cpu_seconds, broken, visited, missing, illegal } = tally;
  const rate = (schedules / seconds).toFixed(mode === "pure" ? 0 : 1);
  console.log(
    `${mode}: ${schedules} schedules, ${steps} steps, ${seconds.toFixed(1)} s: ${rate} schedules/s, ${((cpu_seconds * 1_000) / schedules).toFixed(2)} ms of CPU each`,
  );
  console.log(`${visited} of ${visited + missing.length} pairs of state and event visited; ${broken.length} schedules broke a rule`);
  if (illegal.length > 0) console.log(`met, and cannot meet: ${illegal.join("; ")}`);
  if (missing.length > 0) console.log(`not visited: ${missing.join("; ")}`);
  if (values.pairs) for (const [pair, times] of tally.pairs) console.log(`${String(times).padStart(9)}  ${pair}`);
  const must_be_complete = schedules >= SCHEDULES[mode];
  return broken.length > 0 || illegal.length > 0 || (must_be_complete && missing.length > 0) ? 1 : 0;
}

if (values.help) console.log(HELP);
else {
  const mode = values.whole ? "whole" : "pure";
  const plant = plantOf(values.plant);
  const tally = await simulate({
    mode,
    seed: count("seed", values.seed),
    schedules: values.schedules === undefined ? SCHEDULES[mode] : count("schedules", values.schedules),
    plant,
    onBroken: printBroken,
  });
  const status = report(tally, mode);
  if (plant === undefined) process.exitCode = status;
  else {
    const [first] = tally.broken;
    console.log(
      first === undefined ? `${plant} was not found` : `${plant} was found by seed ${first.seed}, after ${tally.schedules} schedules`,
    );
    process.exitCode = first === undefined ? 1 : 0;
  }
}
