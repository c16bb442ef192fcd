import { systemClock } from "@roamfleet/clock";
import { endProcess } from "@roamfleet/clock/line-output";
import { type Command, InvalidArgumentError } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import { environment, type ServeFlags } from "../config.ts";
import { addFlags, type Flag, SERVE_FLAGS } from "../flags.ts";
import type { Finding } from "./finding.ts";
import type { Screen } from "./examine.ts";

/** Flags of `roamfleet doctor` in addition to those of `serve`. docs/reference/settings.md has the same descriptions. */
export const DOCTOR_FLAGS: readonly Flag[] = [
  { flags: "--json", meaning: "one JSON document instead of lines" },
  { flags: "--timeout <time>", meaning: "time limit of each check, such as 5s or 500ms (default: 5s)" },
];

const HELP = `
Pass the same flags and environment as to serve. doctor starts no server and leaves no changes: it removes what it writes to test a
directory or an S3 store, and it sends one test message over the bus. It shows no passwords or keys.

Exit codes: 0 no problems (there may be warnings), 1 the server would not work with these settings, 2 invalid flags of doctor.`;

const TIMEOUT_MS = 5_000;
const TIMEOUT_MS_MAX = 600_000;
const EXIT = { healthy: 0, problems: 1, usage: 2 } as const;

type DoctorFlags = ServeFlags & { json?: boolean; timeout?: number };

/** Adds `roamfleet doctor`. The checks are loaded on demand, because a server does not need them. */
export function addDoctor(program: Command): void {
  const doctor = program
    .command("doctor")
    .description("check the settings and services that serve would use, and explain how to fix problems");
  addFlags(doctor, SERVE_FLAGS);
  for (const { flags, meaning } of DOCTOR_FLAGS) {
    if (flags.startsWith("--timeout")) doctor.option(flags, meaning, readTimeout);
    else doctor.option(flags, meaning);
  }
  doctor
    .addHelpText("after", HELP)
    .exitOverride((error) => process.exit(error.exitCode === 0 ? EXIT.healthy : EXIT.usage))
    .action(async ({ json = false, timeout = TIMEOUT_MS, ...flags }: DoctorFlags) =>
      endProcess(await runDoctor(flags, { json, timeout_ms: timeout })),
    );
}

function readTimeout(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text) ?? [];
  const ms = Number(number) * { ms: 1, s: 1_000, m: 60_000 }[unit as "ms" | "s" | "m"];
  if (!(ms > 0 && ms <= TIMEOUT_MS_MAX)) throw new InvalidArgumentError("expected a time of at most 10m, such as 500ms, 5s or 1m");
  return ms;
}

async function runDoctor(flags: ServeFlags, { json, timeout_ms }: { json: boolean; timeout_ms: number }): Promise<number> {
  const { examine, countStatuses, printFindings, summarize } = await import("./examine.ts");
  const env = environment();
  const { isTTY: is_terminal, columns } = process.stdout;
  const screen: Screen = { colors: is_terminal && !env["NO_COLOR"] && env["TERM"] !== "dumb", columns: is_terminal ? columns : undefined };
  const print = (text: string): void => void process.stdout.write(text);
  const told = json ? () => {} : (findings: readonly Finding[]) => print(printFindings(findings, screen));
  const findings = await examine({ flags, env, clock: systemClock, timeout_ms, told });
  const counts = countStatuses(findings);
  if (json) print(`${JSON.stringify({ version: packageJson.version, ...counts, findings }, null, 2)}\n`);
  else print(`\n${summarize(findings)}\n`);
  return counts.problems > 0 ? EXIT.problems : EXIT.healthy;
}
