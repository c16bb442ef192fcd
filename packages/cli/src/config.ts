/** The address of `robofleet serve` when nothing else is said. */
export const DEFAULT_BASE_URL = "http://127.0.0.1:7600";

/** A person waits for a Tab this long and no longer. */
const COMPLETION_MS = 1_500;

/** What the environment says; the only place of this package that reads it. */
export interface Environment {
  token: string | undefined;
  base_url: string | undefined;
  org: string | undefined;
  profile: string | undefined;
  admin_token: string | undefined;
  /** XDG_CONFIG_HOME. */
  config_home: string | undefined;
  /** Whether a terminal may be given colours. */
  colors: boolean;
  debug: boolean;
  /** TERM: what kind of terminal this is, where it says so in a form that others understand. */
  term: string | undefined;
  /** Tokens may go to another machine in the clear. */
  allow_insecure_http: boolean;
  /** ROBOFLEET_PAGER or PAGER; undefined when it is not set, empty when it says that there is none. */
  pager: string | undefined;
  /** So long a Tab waits for the service, in milliseconds. */
  completion_ms: number;
  /** VISUAL or EDITOR. */
  editor: string | undefined;
  /** HTTPS_PROXY, HTTP_PROXY or their lower-case forms are set. */
  has_proxy: boolean;
  /** The environment that the pager runs in. */
  pagerEnvironment: () => NodeJS.ProcessEnv;
}

export function readEnvironment(env: NodeJS.ProcessEnv = process.env): Environment {
  // An empty variable is an unset one, as in `ROBOFLEET_TOKEN= rf …`.
  const read = (name: string): string | undefined => env[name] || undefined;
  // The end of a line comes along from a file with \r\n.
  const readSecret = (name: string): string | undefined => env[name]?.trim() || undefined;
  return {
    token: readSecret("ROBOFLEET_TOKEN"),
    base_url: read("ROBOFLEET_BASE_URL"),
    org: read("ROBOFLEET_ORG"),
    profile: read("ROBOFLEET_PROFILE"),
    admin_token: readSecret("ROBOFLEET_ADMIN_TOKEN"),
    config_home: read("XDG_CONFIG_HOME"),
    colors: read("NO_COLOR") === undefined && env.TERM !== "dumb",
    term: /^[\w.+-]{1,64}$/.test(env.TERM ?? "") ? env.TERM : undefined,
    debug: read("ROBOFLEET_DEBUG") !== undefined && env.ROBOFLEET_DEBUG !== "0",
    allow_insecure_http: read("ROBOFLEET_ALLOW_INSECURE_HTTP") !== undefined && env.ROBOFLEET_ALLOW_INSECURE_HTTP !== "0",
    pager: env.ROBOFLEET_PAGER ?? env.PAGER,
    completion_ms: /^[1-9]\d{0,6}$/.test(env.ROBOFLEET_COMPLETION_MS ?? "") ? Number(env.ROBOFLEET_COMPLETION_MS) : COMPLETION_MS,
    editor: read("VISUAL") ?? read("EDITOR"),
    has_proxy: ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"].some((name) => read(name) !== undefined),
    // As git calls it: leave when it fits on the screen, show colours, leave the text on the screen.
    pagerEnvironment: () => ({ LESS: "FRX", LV: "-c", ...env }),
  };
}
