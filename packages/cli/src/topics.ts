import { DEFAULT_BASE_URL } from "./config.ts";
import { EXIT_MEANINGS } from "./exit-codes.ts";

export interface Topic {
  name: string;
  summary: string;
  text: string;
}

const rows = (pairs: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join("\n");
};

export const ENVIRONMENT: readonly (readonly [string, string])[] = [
  ["ROBOFLEET_TOKEN", "token, instead of the saved one"],
  ["ROBOFLEET_BASE_URL", "address of the service, instead of the saved one"],
  ["ROBOFLEET_ORG", "id of the org to act in, when a token has several"],
  ["ROBOFLEET_PROFILE", "profile of the credentials file, like --profile"],
  ["ROBOFLEET_ADMIN_TOKEN", "the service's admin token, for `rf orgs`"],
  ["ROBOFLEET_DEBUG", "1: errors show where in the program they happened"],
  ["XDG_CONFIG_HOME", "folder of robofleet/credentials.toml (default ~/.config)"],
  ["NODE_EXTRA_CA_CERTS", "PEM file of further authorities to trust"],
  ["NO_COLOR", "anything: no colours"],
];

/** What `rf help NAME` explains beside commands. */
export const topics: readonly Topic[] = [
  {
    name: "exit-codes",
    summary: "What the exit code of rf says",
    text: `Exit codes of rf:\n\n${rows(Object.entries(EXIT_MEANINGS).map(([code, meaning]) => [code.padStart(3), meaning]))}\n`,
  },
  {
    name: "environment",
    summary: "Environment variables and the credentials file",
    text: `Environment variables of rf:

${rows(ENVIRONMENT)}

The credentials file is TOML. \`token\` and \`base_url\` at its top are the default
profile; more profiles stand in tables and are chosen with --profile NAME:

  token = "rf_user_…"
  base_url = "${DEFAULT_BASE_URL}"

  [profiles.lab]
  token = "rf_user_…"
  base_url = "https://lab.example.org"

Each value comes from the first that has it: flag, environment variable, profile,
top of the file. Without any address it is ${DEFAULT_BASE_URL}.
`,
  },
];
