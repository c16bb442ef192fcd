/** A help topic of `rf help NAME`. Its text is loaded on demand. */
export interface Topic {
  name: TopicName;
  summary: string;
}

export type TopicName = "exit-codes" | "environment" | "credentials" | "output" | "scripting" | "deployment-states";

export const topics: readonly Topic[] = [
  { name: "exit-codes", summary: "Exit codes of rf" },
  { name: "environment", summary: "Environment variables and their precedence" },
  { name: "credentials", summary: "The credentials file, and profiles for several services or accounts" },
  { name: "output", summary: "Tables, JSON, YAML, columns, colors and the pager" },
  { name: "scripting", summary: "Calling rf from programs" },
  { name: "deployment-states", summary: "Statuses of deployments and of their robots" },
];

export const ENVIRONMENT: readonly (readonly [string, string])[] = [
  ["ROAMFLEET_TOKEN", "token; overrides the saved token"],
  ["ROAMFLEET_BASE_URL", "address of the service; overrides the saved address"],
  ["ROAMFLEET_ORG", "org to use, if the token gives access to several"],
  ["ROAMFLEET_PROFILE", "profile of the credentials file, like --profile"],
  ["ROAMFLEET_ADMIN_TOKEN", "the service's admin token, for `rf orgs`"],
  ["ROAMFLEET_ALLOW_INSECURE_HTTP", "1: allow tokens over plain http"],
  ["ROAMFLEET_PAGER", "pager that overrides PAGER; empty or cat: no pager"],
  ["ROAMFLEET_DEBUG", "1: print stack traces of errors"],
  ["ROAMFLEET_COMPLETION_MS", "completion timeout in milliseconds (default 1500)"],
  ["XDG_CONFIG_HOME", "parent of the settings directory roamfleet/ (default ~/.config)"],
  ["NODE_EXTRA_CA_CERTS", "PEM file of additional trusted certificate authorities"],
  ["PAGER", "pager for long output (default less)"],
  ["VISUAL, EDITOR", "editor of rf configs edit"],
  ["NO_COLOR", "any value: no colors"],
];
