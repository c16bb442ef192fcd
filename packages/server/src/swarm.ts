import { systemClock } from "@roamfleet/clock";
import type { Command } from "commander";
import { readEnrollKey } from "./config.ts";
import type { Flag } from "./flags.ts";

/** What `roamfleet swarm --help` says of each flag; docs/reference/settings.md is made of the same words. */
export const SWARM_FLAGS: readonly Flag[] = [
  { flags: "--server <url>", meaning: "address of the server (default: http://127.0.0.1:7600)" },
  {
    flags: "--key <key>",
    meaning: "enrolment key, made by `rf keys new` (or ROAMFLEET_ENROLL_KEY, which other users of the machine cannot see)",
  },
  { flags: "--robots <number>", meaning: "how many robots (default: 100)" },
  {
    flags: "--fail <number>",
    meaning: "robots that fail the verification of every release but their first, spread evenly over the order of enrolment",
  },
  { flags: "--failure-rate <rate>", meaning: "how likely each install fails, the first too: 0.05 or 5%" },
  { flags: "--flap [seconds]", meaning: "each robot loses its link about once in so many seconds (60) and comes back" },
  { flags: "--latency <ms>", meaning: "milliseconds that each step of a robot takes beside what it really does" },
  { flags: "--seed <number>", meaning: "the same number makes the same robots, names and failures (default: a random one)" },
  { flags: "--state <dir>", meaning: "keep the robots and what they run there; without it they are in memory" },
  { flags: "--real-time", meaning: "verification takes as long as the deployment says, as on a robot" },
  { flags: "--share-downloads", meaning: "one robot fetches and checks an artifact for all of them" },
  { flags: "--name <prefix>", meaning: "names are this and a number (default: sim-SEED)" },
  { flags: "--label <key=value>", meaning: "label of each robot; may be repeated", repeatable: true },
  { flags: "--ca-fingerprint <sha256:…>", meaning: "trust the server's own certificate authority that has this fingerprint" },
  { flags: "--ca-file <file>", meaning: "trust the certificate authority in this PEM file, and no other" },
  { flags: "--trust-on-first-use", meaning: "trust whatever certificate authority the server presents at the first connection" },
  { flags: "--allow-insecure-http", meaning: "accept a plain http server on another machine" },
  { flags: "--verbose", meaning: "say each time why a link was lost" },
];

const SERVER_DEFAULT = "http://127.0.0.1:7600";

/** Adds `roamfleet swarm`. The simulated robots are loaded when they are asked for: a server has no use for them. */
export function addSwarm(program: Command): void {
  const swarm = program.command("swarm").description("run simulated robots against a server, to try a rollout or to load it");
  for (const { flags, meaning, repeatable } of SWARM_FLAGS) {
    if (repeatable === true) swarm.option(flags, meaning, (one: string, all: string[] | undefined) => [...(all ?? []), one]);
    else swarm.option(flags, meaning);
  }
  swarm.action(async (flags: { server?: string; key?: string }) => {
    // oxlint-disable-next-line no-restricted-imports -- the one place, and only when this command is called
    const { runSwarm } = await import("@roamfleet/swarm/run");
    const stopped = new AbortController();
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => stopped.abort(signal));
    const code = await runSwarm({
      flags: { ...flags, server: flags.server ?? SERVER_DEFAULT, key: flags.key ?? readEnrollKey() ?? "" },
      clock: systemClock,
      screen: {
        is_terminal: process.stdout.isTTY,
        columns: () => process.stdout.columns || 80,
        write: (text) => void process.stdout.write(text),
      },
      complain: (line) => void process.stderr.write(`roamfleet: ${line}\n`),
      signal: stopped.signal,
    });
    process.exit(code);
  });
}
