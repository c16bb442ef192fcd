import { systemClock } from "@roamfleet/clock";
import type { Command } from "commander";
import { readEnrollKey } from "./config.ts";
import type { Flag } from "./flags.ts";

/** Descriptions of each flag for `roamfleet swarm --help` and docs/reference/settings.md. */
export const SWARM_FLAGS: readonly Flag[] = [
  { flags: "--server <url>", meaning: "address of the server (default: http://127.0.0.1:7600)" },
  {
    flags: "--key <key>",
    meaning: "enrollment key, created by `rf keys new` (or ROAMFLEET_ENROLL_KEY, which other users of the machine cannot see)",
  },
  { flags: "--robots <number>", meaning: "number of robots (default: 100)" },
  {
    flags: "--fail <number>",
    meaning: "number of robots that fail the verification of every release but their first, spread evenly over the order of enrollment",
  },
  { flags: "--failure-rate <rate>", meaning: "probability that an install fails, including the first: 0.05 or 5%" },
  { flags: "--flap [seconds]", meaning: "each robot loses its link about once in this many seconds (default: 60) and reconnects" },
  { flags: "--latency <ms>", meaning: "additional milliseconds of each step of a robot" },
  { flags: "--seed <number>", meaning: "the same number creates the same robots, names and failures (default: a random one)" },
  { flags: "--state <dir>", meaning: "directory for the state of the robots; without it they are in memory" },
  { flags: "--real-time", meaning: "verification takes as long as in the deployment, as on a robot" },
  { flags: "--share-downloads", meaning: "one robot downloads and checks each artifact for all of them" },
  { flags: "--name <prefix>", meaning: "prefix of the robots' names, followed by a number (default: sim-SEED)" },
  { flags: "--label <key=value>", meaning: "label of each robot; may be repeated", repeatable: true },
  { flags: "--ca-fingerprint <sha256:…>", meaning: "trust the server's own certificate authority with this fingerprint" },
  { flags: "--ca-file <file>", meaning: "trust the certificate authority in this PEM file, and no other" },
  { flags: "--trust-on-first-use", meaning: "trust whatever certificate authority the server presents at the first connection" },
  { flags: "--allow-insecure-http", meaning: "accept a plain http server on another machine" },
  { flags: "--verbose", meaning: "log why each link was lost" },
];

const SERVER_DEFAULT = "http://127.0.0.1:7600";

/** Adds `roamfleet swarm`. The simulated robots are loaded on demand, because a server does not need them. */
export function addSwarm(program: Command): void {
  const swarm = program.command("swarm").description("run simulated robots against a server, to try a rollout or to load it");
  for (const { flags, meaning, repeatable } of SWARM_FLAGS) {
    if (repeatable === true) swarm.option(flags, meaning, (one: string, all: string[] | undefined) => [...(all ?? []), one]);
    else swarm.option(flags, meaning);
  }
  swarm.action(async (flags: { server?: string; key?: string }) => {
    // oxlint-disable-next-line no-restricted-imports -- the only place, and only for this command
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
