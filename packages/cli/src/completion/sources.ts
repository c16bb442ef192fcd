import { systemClock } from "@roamfleet/clock";
import { paths, type RouteName } from "@roamfleet/protocol/paths";
import { RELEASE_KINDS } from "@roamfleet/protocol/states";
import type { Client } from "@roamfleet/sdk";
import type { Argument, Command, Option } from "commander";
import { type Environment, readEnvironment } from "../config.ts";
import { Context } from "../context.ts";
import { credentialsPath, DEFAULT_PROFILE, profilesOf } from "../credentials.ts";
import { Output } from "../output.ts";
import { readToml } from "../toml-file.ts";

const ROWS_MAX = 1_000;

/** The fields of list rows that completion uses. */
interface Row {
  id: string;
  name?: string | null;
  label?: string | null;
  tag?: string;
  email?: string;
  status?: string;
  key?: string;
  namespace?: string | null;
  title?: string;
  reason?: string | null;
  release?: { tag: string };
}

/** Lists of the service: the route, and how a row becomes a candidate. */
const LISTS = {
  robots: ["listRobots", ({ id, name, status }) => ({ value: id, name, about: status })],
  fleets: ["listFleets", ({ id, name }) => ({ value: id, name })],
  sites: ["listSites", ({ id, name }) => ({ value: id, name })],
  releases: ["listReleases", ({ id, tag }) => ({ value: tag ?? id, about: id })],
  deployments: ["listDeployments", ({ id, release, status }) => ({ value: id, name: release?.tag, about: status })],
  config_deployments: ["listConfigDeployments", ({ id, namespace, status }) => ({ value: id, name: namespace, about: status })],
  config_keys: ["listConfigs", ({ key, namespace }) => ({ value: key, about: namespace })],
  namespaces: ["listConfigs", ({ namespace }) => ({ value: namespace })],
  keys: ["listEnrollmentKeys", ({ id, label, status }) => ({ value: id, name: label, about: status })],
  channels: ["listChannels", ({ id, name }) => ({ value: id, name })],
  users: ["listUsers", ({ id, name, email }) => ({ value: id, name, about: email })],
  tokens: ["listTokens", ({ id, label, status }) => ({ value: id, name: label, about: status })],
  alert_rules: ["listAlertRules", ({ id, name }) => ({ value: id, name })],
  alert_mutes: ["listAlertMutes", ({ id, reason }) => ({ value: id, about: reason })],
  incidents: ["listIncidents", ({ id, title, status }) => ({ value: id, name: title, about: status })],
  orgs: ["listOrgs", ({ id, name, status }) => ({ value: id, name, about: status })],
} as const satisfies Record<string, [RouteName, (row: Row) => LooseCandidate]>;

/** A candidate before validation: any field may be missing. */
type LooseCandidate = { [K in keyof Candidate]: string | null | undefined };

export type Source =
  | keyof typeof LISTS
  | "my_orgs"
  | "signing_keys"
  | "profiles"
  | "paths"
  | "kinds"
  | "files"
  | "ros_topics"
  | "metric_names";

/**
 * The source of candidates for each argument and flag, such as `releases --kind`. For a flag with the same meaning in every command, such
 * as `--robot`, the key contains no noun.
 */
const SOURCES: Readonly<Record<string, Source>> = {
  "--robot": "robots",
  "--for-robot": "robots",
  "--fleet": "fleets",
  "--site": "sites",
  "--deployment": "deployments",
  "--namespace": "namespaces",
  "--user": "users",
  "--token-id": "tokens",
  "--rule": "alert_rules",
  "--org": "my_orgs",
  "--profile": "profiles",
  "releases --kind": "kinds",
  "--manifest": "files",
  "--input": "files",
  "--policy": "files",
  "--sign": "files",
  "--from-file": "files",
  "robots id": "robots",
  "explain id": "robots",
  "metrics id": "robots",
  "metrics name": "metric_names",
  "metrics names": "metric_names",
  "robots topic": "ros_topics",
  "robots source": "files",
  "robots target": "files",
  "fleets id": "fleets",
  "sites id": "sites",
  "keys id": "keys",
  "channels id": "channels",
  "users id": "users",
  "tokens id": "tokens",
  "signing-keys id": "signing_keys",
  "--known": "signing_keys",
  "signing-keys file": "files",
  "alerts id": "alert_rules",
  "alerts mute": "alert_mutes",
  "incidents id": "incidents",
  "orgs id": "orgs",
  "deployments id": "deployments",
  "configs id": "config_deployments",
  "configs key": "config_keys",
  "profiles profile": "profiles",
  "deploy release": "releases",
  "releases release": "releases",
  "releases path": "files",
  "api path": "paths",
};

export function sourceOf(command: Command, slot: Argument | Option): Source | undefined {
  const noun = command.parent?.parent == null ? command : command.parent;
  if ("long" in slot) return SOURCES[`${noun.name()} ${slot.long}`] ?? SOURCES[slot.long ?? ""];
  return SOURCES[`${noun.name()} ${slot.name()}`];
}

/** Returns the candidates of a source. `words` are the preceding arguments. For topics, the first argument is the id of the robot. */
export async function readSource(
  source: Exclude<Source, "files">,
  flags: ReadonlyMap<string, string>,
  words: readonly string[] = [],
): Promise<Candidate[]> {
  if (source === "kinds") return RELEASE_KINDS.map((value) => ({ value }));
  if (source === "paths") return Object.values(paths).map(([method, path]) => ({ value: path, about: method }));
  if (source === "profiles") {
    const profiles = profilesOf(await readToml(credentialsPath(readEnvironment())));
    return [
      { value: DEFAULT_PROFILE, about: "the file's top level" },
      ...[...profiles].map(([value, { base_url = "" }]) => ({ value, about: base_url })),
    ];
  }
  const environment = readEnvironment();
  const client = await connect(flags, environment);
  const controller = new AbortController();
  const timer = systemClock.setTimer(environment.completion_ms, () => controller.abort());
  try {
    if (source === "my_orgs") {
      const { orgs } = (await client.getMe({ signal: controller.signal })).data;
      return orgs.map(({ id, name, role }) => ({ value: id, name, about: role }));
    }
    if (source === "ros_topics") {
      // Reads the topics from the latest health snapshot, because opening a stream would write an audit entry on every Tab.
      const { ros } = (await client.getRobotHealth({ params: { id: words[0] ?? "" }, signal: controller.signal })).data;
      return (ros?.topics ?? []).map((value) => ({ value }));
    }
    if (source === "metric_names") return (await client.listMetrics({ signal: controller.signal })).data.names.map((value) => ({ value }));
    if (source === "signing_keys") {
      const { keys } = (await client.getSigningKeys({ signal: controller.signal })).data;
      return keys.filter(({ revoked_at }) => revoked_at === null).map(({ id, name }) => ({ value: id, name }));
    }
    const [route, toCandidate] = LISTS[source];
    // Calls the list route without its specific type: LISTS defines which fields of the rows are read.
    const { call } = client as unknown as { call: (name: RouteName, args: unknown) => Promise<{ body: { items: Row[] } }> };
    const { body } = await call(route, { query: { limit: ROWS_MAX }, signal: controller.signal });
    return unique(body.items.map(toCandidate));
  } finally {
    timer.cancel();
  }
}

/** Builds the same client as a command, with the same token and TLS settings. */
async function connect(flags: ReadonlyMap<string, string>, environment: Environment): Promise<Client> {
  const given = { base_url: flags.get("baseUrl"), org: flags.get("org"), profile: flags.get("profile") };
  const context = new Context(new Output({ format: "json", colors: false }), given, environment);
  const { base_url, token, org_id } = await context.access();
  return context.connect({ base_url, token, org_id, admin_token: environment.admin_token, retries: 0 });
}

/** Removes duplicate values, such as two keys with one name, and rows without a value. */
function unique(rows: readonly LooseCandidate[]): Candidate[] {
  const made = new Map<string, Candidate>();
  for (const { value, name, about } of rows) {
    if (value === null || value === undefined || made.has(value)) continue;
    made.set(value, { value, ...(name == null ? {} : { name }), ...(about == null ? {} : { about }) });
  }
  return [...made.values()];
}

/** A possible completion and its description. */
export interface Candidate {
  value: string;
  about?: string;
  /** Display name, which also matches the typed text. */
  name?: string;
}
