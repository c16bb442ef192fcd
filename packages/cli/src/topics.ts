/** Something that `rf help NAME` explains beside commands. Its text is loaded when it is asked for. */
export interface Topic {
  name: TopicName;
  summary: string;
}

export type TopicName = "exit-codes" | "environment" | "credentials" | "output" | "scripting" | "deployment-states";

export const topics: readonly Topic[] = [
  { name: "exit-codes", summary: "What the exit code of rf says" },
  { name: "environment", summary: "Environment variables, and what goes before what" },
  { name: "credentials", summary: "The credentials file, and profiles for several services or accounts" },
  { name: "output", summary: "Tables, JSON, YAML, columns, colours and the pager" },
  { name: "scripting", summary: "Calling rf from programs" },
  { name: "deployment-states", summary: "What the status of a deployment and of a robot in it says" },
];

export const ENVIRONMENT: readonly (readonly [string, string])[] = [
  ["ROBOFLEET_TOKEN", "token, instead of the saved one"],
  ["ROBOFLEET_BASE_URL", "address, instead of the saved one"],
  ["ROBOFLEET_ORG", "org to act in, when a token has several"],
  ["ROBOFLEET_PROFILE", "profile of the credentials file, like --profile"],
  ["ROBOFLEET_ADMIN_TOKEN", "the service's admin token, for `rf orgs`"],
  ["ROBOFLEET_ALLOW_INSECURE_HTTP", "1: tokens may go out by plain http"],
  ["ROBOFLEET_PAGER", "instead of PAGER; empty or cat for none"],
  ["ROBOFLEET_DEBUG", "1: errors show where they happened"],
  ["ROBOFLEET_COMPLETION_MS", "so long a Tab waits for the service (default 1500)"],
  ["XDG_CONFIG_HOME", "folder of robofleet/ (default ~/.config)"],
  ["NODE_EXTRA_CA_CERTS", "PEM file of further authorities to trust"],
  ["PAGER", "shows what is long (default less)"],
  ["VISUAL, EDITOR", "opens what rf configs edit changes"],
  ["NO_COLOR", "anything: no colours"],
];
