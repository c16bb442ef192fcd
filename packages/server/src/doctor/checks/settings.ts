import { distance } from "fastest-levenshtein";
import { SERVE_ENVIRONMENT } from "../../flags.ts";
import type { Check, DoctorContext } from "../context.ts";
import { ok, problem, type Seen, warning } from "../finding.ts";

const KNOWN = new Set(SERVE_ENVIRONMENT.map(([name]) => name));
/** Variables of `rf` and `rf-agent`, which may be set on the same machine and are not typos. */
const OTHER_NAMES =
  "ADMIN_TOKEN AGENT_CONFIG AGENT_LOG_LEVEL ALLOW_INSECURE_HTTP APP BASE_URL CA_FINGERPRINT COMPLETION_MS " +
  "CONFIG_DIR CONTAINER_SOCKET DEBUG ENROLL_KEY ORG PAGER PROFILE RELEASE ROBOT_NAME SERVER " +
  "SAFE_TO_UPDATE_COMMAND SAFE_TO_UPDATE_TIMEOUT SAFE_TO_UPDATE_URL SHELL SHELL_ID SOCKET SOCKET_GROUP STATE " +
  "TOKEN FAILPOINT FAILPOINT_LOG";
const OF_OTHER_PROGRAMS = new Set(OTHER_NAMES.split(" ").map((name) => `ROAMFLEET_${name}`));
/** Maximum edit distance of a typo. With three, ROAMFLEET_ORG of `rf` would resemble ROAMFLEET_TLS. */
const TYPO_LETTERS_MAX = 2;

export const settingsCheck: Check = { name: "settings", check: judgeSettings };

/** Reports everything that `serve` would refuse, and variables that resemble a setting but are not read. */
export function judgeSettings({ wrong_settings, env, settings }: Pick<DoctorContext, "wrong_settings" | "env" | "settings">): Seen[] {
  const findings = wrong_settings.map((message) => {
    // The list of known limits is long, and the help shows it better.
    const [first = "", ...more] = message.replace(/; known are [^\n]{80,}/, "").split("\n");
    return problem(first, more.length > 0 ? more.join("\n") : "roamfleet serve --help lists all flags, variables and limits");
  });
  for (const name of Object.keys(env)) {
    const meant = env[name] === "" ? undefined : meantBy(name);
    if (meant !== undefined) findings.push(warning(`${name} is set but not used`, `did you mean ${meant}?`));
  }
  if (settings.failpoint !== undefined)
    findings.push(problem("--crash-at-failpoint: the server kills itself", "omit it: it is for crash tests"));
  if (settings.failpoint_ignored === true)
    findings.push(warning("ROAMFLEET_FAILPOINT is set but ignored without --crash-at-failpoint", "unset it: it is for tests"));
  if (findings.length > 0) return findings;
  const set = Object.keys(env).filter((name) => KNOWN.has(name) && env[name] !== "");
  return [ok(set.length === 0 ? "no variables are set" : set.toSorted().join(", "))];
}

/** Returns the variable of `serve` that an unused one resembles. */
function meantBy(name: string): string | undefined {
  if (KNOWN.has(name) || OF_OTHER_PROGRAMS.has(name) || !/^(ROAMFLEET|DATABASE|SERVICE)_/.test(name)) return undefined;
  return [...KNOWN].find((known) => distance(known, name) <= TYPO_LETTERS_MAX);
}
