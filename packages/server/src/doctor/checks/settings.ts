import { distance } from "fastest-levenshtein";
import { SERVE_ENVIRONMENT } from "../../flags.ts";
import type { Check, DoctorContext } from "../context.ts";
import { ok, problem, type Seen, warning } from "../finding.ts";

const KNOWN = new Set(SERVE_ENVIRONMENT.map(([name]) => name));
/** What `rf` and `rf-agent` read: on a machine that has them too, no typo of a variable of the server. */
const OTHER_NAMES =
  "ADMIN_TOKEN AGENT_CONFIG AGENT_LOG_LEVEL ALLOW_INSECURE_HTTP APP BASE_URL CA_FINGERPRINT COMPLETION_MS " +
  "CONFIG_DIR CONTAINER_SOCKET DEBUG ENROLL_KEY ORG PAGER PROFILE RELEASE ROBOT_NAME SERVER " +
  "SAFE_TO_UPDATE_COMMAND SAFE_TO_UPDATE_TIMEOUT SAFE_TO_UPDATE_URL SHELL SHELL_ID SOCKET SOCKET_GROUP STATE " +
  "TOKEN FAILPOINT FAILPOINT_LOG";
const OF_OTHER_PROGRAMS = new Set(OTHER_NAMES.split(" ").map((name) => `ROAMFLEET_${name}`));
/** Letters between a variable and the one that was meant; with three, ROAMFLEET_ORG of `rf` would be ROAMFLEET_TLS. */
const TYPO_LETTERS_MAX = 2;

export const settingsCheck: Check = { name: "settings", check: judgeSettings };

/** All that `serve` would refuse, and what it would not read although it looks like a setting. */
export function judgeSettings({ wrong_settings, env, settings }: Pick<DoctorContext, "wrong_settings" | "env" | "settings">): Seen[] {
  const findings = wrong_settings.map((message) => {
    // Of a limit that there is not all are named: help does that better.
    const [first = "", ...more] = message.replace(/; known are [^\n]{80,}/, "").split("\n");
    return problem(first, more.length > 0 ? more.join("\n") : "roamfleet serve --help tells all flags, variables and limits");
  });
  for (const name of Object.keys(env)) {
    const meant = env[name] === "" ? undefined : meantBy(name);
    if (meant !== undefined) findings.push(warning(`${name} is set, and nothing reads it`, `is ${meant} meant?`));
  }
  if (settings.failpoint !== undefined)
    findings.push(problem("--crash-at-failpoint: the server kills itself", "leave it out: it is for tests of crashes"));
  if (settings.failpoint_ignored === true)
    findings.push(warning("ROAMFLEET_FAILPOINT is set, and not obeyed without --crash-at-failpoint", "unset it: it is for tests"));
  if (findings.length > 0) return findings;
  const set = Object.keys(env).filter((name) => KNOWN.has(name) && env[name] !== "");
  return [ok(set.length === 0 ? "no variable is set" : set.toSorted().join(", "))];
}

/** The variable of `serve` that one which nobody reads resembles. */
function meantBy(name: string): string | undefined {
  if (KNOWN.has(name) || OF_OTHER_PROGRAMS.has(name) || !/^(ROAMFLEET|DATABASE|SERVICE)_/.test(name)) return undefined;
  return [...KNOWN].find((known) => distance(known, name) <= TYPO_LETTERS_MAX);
}
