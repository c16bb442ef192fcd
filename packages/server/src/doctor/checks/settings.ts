import { distance } from "fastest-levenshtein";
import type { Settings } from "../../config.ts";
import { SERVE_ENVIRONMENT } from "../../flags.ts";
import { areHostsKnown } from "../../kernel/host-names.ts";
import { Networks } from "../../kernel/networks.ts";
import { listRefusedHosts } from "../../link/index.ts";
import { type Check, type DoctorContext, ok, onDatabase, problem, type Seen, skipped, warning } from "../finding.ts";

const KNOWN = new Set(SERVE_ENVIRONMENT.map(([name]) => name));
/** Variables of `rf` and `rf-agent`, which may be set on the same machine and are not typos. */
const OTHER_NAMES =
  "ADMIN_TOKEN AGENT_CONFIG AGENT_LOG_LEVEL ALLOW_INSECURE_HTTP APP BASE_URL CA_FINGERPRINT COMPLETION_MS " +
  "CONFIG_DIR CONTAINER_SOCKET DEBUG ENROLL_KEY ORG PAGER PROFILE RELEASE ROBOT_LABELS ROBOT_NAME SERVER " +
  "SAFE_TO_UPDATE_COMMAND SAFE_TO_UPDATE_TIMEOUT SAFE_TO_UPDATE_URL SHELL SHELL_ID SOCKET SOCKET_GROUP STATE WORKLOAD_USER TPM " +
  "TOKEN FAILPOINT FAILPOINT_LOG";
const OF_OTHER_PROGRAMS = new Set(OTHER_NAMES.split(" ").map((name) => `ROAMFLEET_${name}`));
/** Maximum edit distance of a typo. With a distance of three, ROAMFLEET_ORG of `rf` would count as a typo of ROAMFLEET_TLS. */
const TYPO_LETTERS_MAX = 2;

export const settingsCheck: Check = { name: "settings", check: evaluateSettings };

/** Reports everything that `serve` would refuse, and unknown variables whose names resemble a setting. */
export function evaluateSettings({ wrong_settings, env, settings }: Pick<DoctorContext, "wrong_settings" | "env" | "settings">): Seen[] {
  const findings = wrong_settings.map((message) => {
    // Omits the list of known limits from the message: the list is long, and the help shows it better.
    const [first = "", ...more] = message.replace(/; known are [^\n]{80,}/, "").split("\n");
    return problem(first, more.length > 0 ? more.join("\n") : "roamfleet serve --help lists all flags, variables and limits");
  });
  for (const name of Object.keys(env)) {
    const meant = env[name] === "" ? undefined : meantBy(name);
    if (meant !== undefined) findings.push(warning(`${name} is set but not used`, `did you mean ${meant}?`));
  }
  if (settings.failpoint !== undefined)
    findings.push(problem("--crash-at-failpoint: the server kills itself", "remove the flag: it is for crash tests"));
  if (settings.failpoint_ignored === true)
    findings.push(warning("ROAMFLEET_FAILPOINT is set but ignored without --crash-at-failpoint", "unset the variable: it is for tests"));
  if (findings.length > 0) return findings;
  const set = Object.keys(env).filter((name) => KNOWN.has(name) && env[name] !== "");
  return [ok(set.length === 0 ? "no variables are set" : set.toSorted().join(", "))];
}

/** Returns the variable of `serve` that the unknown variable `name` is probably a typo of. */
function meantBy(name: string): string | undefined {
  if (KNOWN.has(name) || OF_OTHER_PROGRAMS.has(name) || !/^(ROAMFLEET|DATABASE|SERVICE)_/.test(name)) return undefined;
  return [...KNOWN].find((known) => distance(known, name) <= TYPO_LETTERS_MAX);
}

/** Shortest prefixes of a plausible proxy network. A range with a shorter prefix is larger than one organization's network. */
const WIDE_BITS = { ipv4: 8, ipv6: 32 } as const;
const TOKEN_CHARACTERS_MIN = 24;
const TOKEN_DIFFERENT_MIN = 8;
const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/;

export const proxiesCheck: Check = {
  name: "proxies",
  check: ({ settings, wrong_parts }) =>
    wrong_parts.has("proxies") ? [skipped("not checked: first fix the problem in settings")] : evaluateProxies(settings),
};

export function evaluateProxies({ behind_proxy, listen }: Pick<Settings, "behind_proxy" | "listen">): Seen[] {
  if (behind_proxy.length === 0) return [ok("none: clients connect directly")];
  const proxies = new Networks(behind_proxy);
  if (LOOPBACK.test(listen.host) && !proxies.has("127.0.0.1") && !proxies.has("::1"))
    return [
      problem(
        `the server only listens on this machine (${listen.host}), and --behind-proxy only accepts other machines`,
        "add 127.0.0.1 to --behind-proxy if the proxy is on this machine; otherwise listen on an address that the proxy can reach",
      ),
    ];
  const wide = behind_proxy.filter((network) => {
    const bits = network.split("/")[1];
    return bits !== undefined && Number(bits) < (network.includes(":") ? WIDE_BITS.ipv6 : WIDE_BITS.ipv4);
  });
  if (wide.length > 0)
    return [
      warning(
        `${wide.join(", ")} covers more addresses than a private network`,
        "specify only the addresses of the proxy: clients at these addresses can forge any client address",
      ),
    ];
  return [ok(behind_proxy.join(", "))];
}

export const adminTokenCheck: Check = {
  name: "admin token",
  check: ({ settings, wrong_parts }) => [
    wrong_parts.has("admin token") ? skipped("not checked: first fix the problem in settings") : evaluateAdminToken(settings),
  ],
};

export function evaluateAdminToken({ admin_token, behind_proxy, listen }: Pick<Settings, "admin_token" | "behind_proxy" | "listen">): Seen {
  const make = "SERVICE_ADMIN_TOKEN=$(openssl rand -hex 32)";
  if (admin_token === undefined) {
    if (behind_proxy.length > 0) return warning("not set: behind a proxy the admin routes and /metrics refuse all requests", make);
    if (LOOPBACK.test(listen.host)) return ok("not set: admin routes are open to every user of this machine");
    return warning("not set: admin routes are open to every user of this machine", make);
  }
  if (admin_token.length < TOKEN_CHARACTERS_MIN || new Set(admin_token).size < TOKEN_DIFFERENT_MIN)
    return warning("set, but so short that it could be guessed", make);
  return ok("set");
}

/** Refusals older than this are not reported. */
const REFUSED_MS = 86_400_000;

export const hostNamesCheck: Check = {
  name: "host names",
  async check(context) {
    const { settings, wrong_parts } = context;
    if (wrong_parts.has("host names") || wrong_parts.has("proxies")) return [skipped("not checked: first fix the problem in settings")];
    return evaluateHostNames(settings, await refusedHosts(context));
  },
};

/** Returns the hosts of recently refused signatures; none if the database is unreachable or has another version's tables. */
const refusedHosts = async (context: DoctorContext): Promise<string[]> =>
  context.wrong_parts.has("database")
    ? []
    : ((await onDatabase(context, (db) => listRefusedHosts(db, new Date(context.clock.now().getTime() - REFUSED_MS)))) ?? []);

export function evaluateHostNames(settings: Pick<Settings, "host_names" | "behind_proxy">, refused: readonly string[]): Seen[] {
  const { host_names = [] } = settings;
  const found: Seen[] = [];
  if (!areHostsKnown(settings))
    found.push(
      warning(
        "not set: behind a proxy, a robot's signature for another server is accepted if that server relays it",
        "use --host-name NAME or ROAMFLEET_HOST_NAMES to set the host names that robots use in --server",
      ),
    );
  if (refused.length > 0)
    found.push(
      warning(
        `in the last 24 hours, this server refused requests that robots had signed for ${refused.join(", ")}`,
        "if such a host is this server, add it with --host-name or ROAMFLEET_HOST_NAMES; otherwise a server with that name relays requests of robots",
      ),
    );
  if (found.length > 0) return found;
  return [ok(host_names.length > 0 ? host_names.join(", ") : "the names of the certificate and of --listen")];
}
