import { readSettings, type ServeFlags, type Settings } from "../config.ts";

/** A part of the settings that can be validated separately. */
export type Part =
  | "data"
  | "database"
  | "listen"
  | "tls"
  | "proxies"
  | "host names"
  | "admin token"
  | "artifacts"
  | "bus"
  | "nodes"
  | "limits"
  | "others";

interface PartOf {
  part: Part;
  flags: readonly (keyof ServeFlags)[];
  variables: readonly string[];
}

const variablesOf = (service: string): string[] => ["URL", "TOKEN"].flatMap((name) => [`${service}_${name}`, `${service}_${name}_FILE`]);

const PARTS: readonly PartOf[] = [
  { part: "data", flags: ["data"], variables: ["ROAMFLEET_DATA"] },
  { part: "database", flags: [], variables: ["DATABASE_URL", "DATABASE_URL_FILE"] },
  { part: "listen", flags: ["listen"], variables: ["ROAMFLEET_LISTEN"] },
  {
    part: "tls",
    flags: ["tls", "tlsName", "tlsCert", "tlsKey"],
    variables: ["ROAMFLEET_TLS", "ROAMFLEET_TLS_NAMES", "ROAMFLEET_TLS_CERT", "ROAMFLEET_TLS_KEY"],
  },
  { part: "proxies", flags: ["behindProxy"], variables: ["ROAMFLEET_BEHIND_PROXY"] },
  { part: "host names", flags: ["hostName"], variables: ["ROAMFLEET_HOST_NAMES"] },
  { part: "admin token", flags: [], variables: ["SERVICE_ADMIN_TOKEN", "SERVICE_ADMIN_TOKEN_FILE"] },
  { part: "artifacts", flags: [], variables: ["ROAMFLEET_BLOBS_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] },
  { part: "bus", flags: [], variables: ["ROAMFLEET_BUS_URL", "ROAMFLEET_BUS_URL_FILE"] },
  { part: "nodes", flags: ["nodeListen", "nodeAddress"], variables: ["ROAMFLEET_NODE_LISTEN", "ROAMFLEET_NODE_ADDRESS"] },
  { part: "limits", flags: ["limit"], variables: [] },
  { part: "others", flags: ["logLevel"], variables: ["ROAMFLEET_LOG_LEVEL"] },
  { part: "others", flags: [], variables: ["ROAMFLEET_SMTP_URL", "ROAMFLEET_SMTP_URL_FILE", "ROAMFLEET_SMTP_FROM"] },
  { part: "others", flags: [], variables: ["ROAMFLEET_ALERT_NETWORKS"] },
  { part: "others", flags: [], variables: variablesOf("ROAMFLEET_METRICS_REMOTE_WRITE") },
  { part: "others", flags: [], variables: variablesOf("ROAMFLEET_METRICS") },
  { part: "others", flags: ["dashboard"], variables: ["ROAMFLEET_DASHBOARD"] },
  { part: "others", flags: ["crashAtFailpoint"], variables: ["ROAMFLEET_FAILPOINT", "ROAMFLEET_FAILPOINT_LOG"] },
];

export interface ReadSettings {
  /** The valid parts of the settings. */
  settings: Settings;
  wrong_parts: ReadonlySet<Part>;
  /** Error messages of all invalid settings, the same as those of `serve`. */
  errors: readonly string[];
}

/** Reads flags and environment like `serve`, but continues after the first error. */
export function readAllSettings(flags: ServeFlags, env: NodeJS.ProcessEnv): ReadSettings {
  const [rest_flags, rest_env] = [{ ...flags }, { ...env }];
  const wrong_parts = new Set<Part>();
  const errors: string[] = [];
  for (const one of PARTS) {
    const found = errorsOf(one, flags, env);
    if (found.length === 0) continue;
    errors.push(...found);
    wrong_parts.add(one.part);
    for (const flag of one.flags) delete rest_flags[flag];
    for (const variable of one.variables) delete rest_env[variable];
  }
  const whole = attempt(rest_flags, rest_env);
  if (typeof whole !== "string") return { settings: whole, wrong_parts, errors };
  // The parts are valid separately but not in combination. If TLS or the proxies are invalid, that error explains the missing TLS already.
  if (!wrong_parts.has("tls") && !wrong_parts.has("proxies")) errors.push(whole);
  delete rest_flags.listen;
  delete rest_env["ROAMFLEET_LISTEN"];
  wrong_parts.add("listen");
  const without_listen = attempt(rest_flags, rest_env);
  return { settings: typeof without_listen === "string" ? readSettings({}, {}) : without_listen, wrong_parts, errors };
}

function errorsOf({ part, flags: names, variables }: PartOf, flags: ServeFlags, env: NodeJS.ProcessEnv): string[] {
  const only_env = Object.fromEntries(variables.map((name) => [name, env[name]]));
  if (part === "limits") return (flags.limit ?? []).flatMap((limit) => errorOf({ limit: [limit] }, {}));
  const only: ServeFlags = Object.fromEntries(names.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])));
  // Validates the listen address as if TLS were on. Whether the address is allowed without TLS depends on other parts.
  return errorOf(part === "listen" ? { ...only, tls: "auto" } : only, only_env);
}

function errorOf(flags: ServeFlags, env: NodeJS.ProcessEnv): string[] {
  const read = attempt(flags, env);
  return typeof read === "string" ? [read] : [];
}

function attempt(flags: ServeFlags, env: NodeJS.ProcessEnv): Settings | string {
  try {
    return readSettings(flags, env);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
