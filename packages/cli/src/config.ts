/** The default address of `roamfleet serve`. */
export const DEFAULT_BASE_URL = "http://127.0.0.1:7600";

/** Default timeout of a completion request. */
const COMPLETION_MS = 1_500;

/** Settings from the environment, which no other module of this package reads. */
export interface Environment {
  token: string | undefined;
  base_url: string | undefined;
  org: string | undefined;
  profile: string | undefined;
  admin_token: string | undefined;
  /** Directory for settings files, from XDG_CONFIG_HOME. */
  config_home: string | undefined;
  /** Whether output to a terminal may use colors. */
  colors: boolean;
  debug: boolean;
  /** Terminal type, from TERM; undefined if the value is not safe to pass on. */
  term: string | undefined;
  /** Whether tokens may be sent to another machine unencrypted. */
  allow_insecure_http: boolean;
  /** ROAMFLEET_PAGER or PAGER; undefined if unset, empty to disable the pager. */
  pager: string | undefined;
  /** Timeout of a completion request, in milliseconds. */
  completion_ms: number;
  /** Command of the user's editor, from VISUAL or EDITOR. */
  editor: string | undefined;
  /** Whether HTTPS_PROXY, HTTP_PROXY or one of their lower-case forms is set. */
  has_proxy: boolean;
  /** Environment of the pager process. */
  pagerEnvironment: () => NodeJS.ProcessEnv;
}

export function readEnvironment(env: NodeJS.ProcessEnv = process.env): Environment {
  // An empty variable counts as unset, as in `ROAMFLEET_TOKEN= rf …`.
  const read = (name: string): string | undefined => env[name] || undefined;
  // Trims the secret, because a line from a CRLF file ends in a carriage return.
  const readSecret = (name: string): string | undefined => env[name]?.trim() || undefined;
  return {
    token: readSecret("ROAMFLEET_TOKEN"),
    base_url: read("ROAMFLEET_BASE_URL"),
    org: read("ROAMFLEET_ORG"),
    profile: read("ROAMFLEET_PROFILE"),
    admin_token: readSecret("ROAMFLEET_ADMIN_TOKEN"),
    config_home: read("XDG_CONFIG_HOME"),
    colors: read("NO_COLOR") === undefined && env.TERM !== "dumb",
    term: /^[\w.+-]{1,64}$/.test(env.TERM ?? "") ? env.TERM : undefined,
    debug: read("ROAMFLEET_DEBUG") !== undefined && env.ROAMFLEET_DEBUG !== "0",
    allow_insecure_http: read("ROAMFLEET_ALLOW_INSECURE_HTTP") !== undefined && env.ROAMFLEET_ALLOW_INSECURE_HTTP !== "0",
    pager: env.ROAMFLEET_PAGER ?? env.PAGER,
    completion_ms: /^[1-9]\d{0,6}$/.test(env.ROAMFLEET_COMPLETION_MS ?? "") ? Number(env.ROAMFLEET_COMPLETION_MS) : COMPLETION_MS,
    editor: read("VISUAL") ?? read("EDITOR"),
    has_proxy: ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"].some((name) => read(name) !== undefined),
    // Set the same pager flags as git: quit if the text fits on the screen, show colors, and leave the text on the screen.
    pagerEnvironment: () => ({ LESS: "FRX", LV: "-c", ...env }),
  };
}
