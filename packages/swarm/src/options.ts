import { randomInt } from "node:crypto";
import path from "node:path";
import { parseLabels, parseServer, UsageError } from "@roamfleet/agent/parts";
import { parseFingerprint } from "@roamfleet/protocol/authority";
import type { SampleOptions } from "./samples.ts";

/** Descriptions of each flag for `roamfleet swarm --help` and docs/reference/settings.md. */
export const SWARM_FLAGS: readonly { flags: string; meaning: string; repeatable?: true }[] = [
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
  { flags: "--series <number>", meaning: "number of metrics that each robot samples every 10 s and sends each minute (default: 0)" },
  { flags: "--real-time", meaning: "verification takes as long as the deployment requires, as on a real robot" },
  { flags: "--share-downloads", meaning: "one robot downloads and checks each artifact for all robots" },
  { flags: "--name <prefix>", meaning: "prefix of the robots' names, followed by a number (default: sim-SEED)" },
  { flags: "--label <key=value>", meaning: "label of each robot; may be repeated", repeatable: true },
  { flags: "--ca-fingerprint <sha256:…>", meaning: "trust the server's own certificate authority with this fingerprint" },
  { flags: "--ca-file <file>", meaning: "trust only the certificate authority in this PEM file" },
  {
    flags: "--trust-on-first-use",
    meaning: "trust the certificate authority that the server presents at the first connection, without verification",
  },
  { flags: "--allow-insecure-http", meaning: "accept a plain http server on another machine" },
  { flags: "--verbose", meaning: "log why each link was lost" },
];

/** The values of the flags of `roamfleet swarm`. */
export interface SwarmFlags {
  server?: string;
  key?: string;
  robots?: string;
  fail?: string;
  failureRate?: string;
  flap?: string | boolean;
  latency?: string;
  seed?: string;
  state?: string;
  name?: string;
  label?: string[];
  shareDownloads?: boolean;
  series?: string;
  realTime?: boolean;
  caFingerprint?: string;
  caFile?: string;
  trustOnFirstUse?: boolean;
  allowInsecureHttp?: boolean;
  verbose?: boolean;
}

/** The parameters of a swarm. Times in milliseconds. */
export interface FleetOptions {
  server: string;
  /** The raw enrollment key; undefined if all robots are in the state directory. */
  key: string | undefined;
  robots: number;
  /** Number of robots that fail the verification of every release except their first. */
  fail: number;
  /** From 0 to 1: the probability that an install fails. */
  failure_rate: number;
  /** Mean time between link drops of a robot; undefined: links are kept. */
  flap_ms: number | undefined;
  /** Mean additional duration of each step. */
  latency_ms: number;
  seed: number;
  /** Absolute path of the directory that stores the robots' state; undefined: the state is in memory only. */
  state_directory: string | undefined;
  name_prefix: string;
  labels: Record<string, string>;
  /** Whether one robot downloads and verifies an artifact for all robots. */
  share_downloads: boolean;
  /** Whether the verification of an install takes as long as the deployment specifies. */
  real_time: boolean;
  /** Metrics that each robot sends; undefined: none. */
  samples: SampleOptions | undefined;
  ca_fingerprint: string | undefined;
  ca_file: string | undefined;
  trust_on_first_use: boolean;
  /** Whether to print link failures too. */
  verbose: boolean;
}

/**
 * Maximum robots of a process. More would exceed the 20,000 files that it may open: each robot needs one for its link and one for a
 * download.
 */
export const ROBOTS_MAX = 15_000;
/** Maximum metrics of a robot, as of an agent. */
const SERIES_MAX = 500;
const SAMPLE_SECONDS = { interval_seconds: 10, flush_seconds: 60 };
const SEED_MAX = 2 ** 31;
const FLAP_SECONDS_DEFAULT = 60;
const LATENCY_MS_MAX = 3_600_000;

/** Parses the flags. Throws UsageError if one is missing or malformed. */
export function readFleetOptions(flags: SwarmFlags): FleetOptions {
  if (!flags.server) throw new UsageError("a server is required: pass --server URL");
  if (!flags.key && flags.state === undefined)
    throw new UsageError("an enrollment key is required: pass --key KEY (created by `rf keys new`) or set ROAMFLEET_ENROLL_KEY");
  const robots = wholeNumber("--robots", flags.robots ?? "100", 1, ROBOTS_MAX);
  const seed = flags.seed === undefined ? randomInt(SEED_MAX) : wholeNumber("--seed", flags.seed, 0, SEED_MAX);
  const fingerprint = flags.caFingerprint === undefined ? undefined : parseFingerprint(flags.caFingerprint);
  if (flags.caFingerprint !== undefined && fingerprint === undefined)
    throw new UsageError(`--ca-fingerprint takes sha256: and 64 hex digits, as printed by \`roamfleet fingerprint\``);
  const series = wholeNumber("--series", flags.series ?? "0", 0, SERIES_MAX);
  return {
    server: parseServer(flags.server, flags.allowInsecureHttp ?? false),
    key: flags.key || undefined,
    robots,
    fail: wholeNumber("--fail", flags.fail ?? "0", 0, robots),
    failure_rate: fraction("--failure-rate", flags.failureRate ?? "0"),
    flap_ms: flapMs(flags.flap),
    latency_ms: wholeNumber("--latency", flags.latency ?? "0", 0, LATENCY_MS_MAX),
    seed,
    state_directory: flags.state === undefined ? undefined : path.resolve(flags.state),
    name_prefix: flags.name ?? `sim-${seed}`,
    labels: parseLabels(flags.label ?? []),
    share_downloads: flags.shareDownloads ?? false,
    real_time: flags.realTime ?? false,
    samples: series === 0 ? undefined : { series, ...SAMPLE_SECONDS },
    ca_fingerprint: fingerprint,
    ca_file: flags.caFile === undefined ? undefined : path.resolve(flags.caFile),
    trust_on_first_use: flags.trustOnFirstUse ?? false,
    verbose: flags.verbose ?? false,
  };
}

function wholeNumber(flag: string, text: string, min: number, max: number): number {
  const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw new UsageError(`${flag} takes a whole number from ${min} to ${max}, not "${text}"`);
  return value;
}

function fraction(flag: string, text: string): number {
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(text)?.[1];
  const value = percent === undefined ? (/^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN) : Number(percent) / 100;
  if (!(value >= 0 && value <= 1)) throw new UsageError(`${flag} takes a number from 0 to 1, or a percentage such as 5%, not "${text}"`);
  return value;
}

function flapMs(flag: string | boolean | undefined): number | undefined {
  if (flag === undefined || flag === false) return undefined;
  return 1_000 * (flag === true ? FLAP_SECONDS_DEFAULT : wholeNumber("--flap", flag, 1, 86_400));
}
