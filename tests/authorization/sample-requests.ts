import { generateKeyPairSync, hash, randomUUID } from "node:crypto";
import { until } from "@roamfleet/clock/testing";
import type { TObject, TSchema } from "typebox";
import type { Route } from "@roamfleet/protocol/routes";
import { publicKeyOf, type SignedText, signTrust } from "@roamfleet/protocol/signatures";
import type { HarnessOrg } from "../harness/index.ts";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";

/** One object of each kind in an org. */
export interface Things {
  org: HarnessOrg;
  robot: SimulatedRobot;
  /** Sample ids. The key is the name of the field that takes the id, or the first part of the path of its route. */
  ids: Record<string, string>;
  sha256: string;
  enrollment_key: string;
}

const SAMPLE_METRIC = "battery_percent";

/** Creates one object of each kind in an org, by default in a new fleet. The robot is connected and has sent its health. */
export async function makeThings(org: HarnessOrg, at: Date, fleet?: string): Promise<Things> {
  const fleet_id = fleet ?? (await org.homeFleet());
  const { site_id } = (await org.api.getFleet({ params: { id: fleet_id } })).data;
  const robot = await org.enrollRobot({ fleet_id });
  robot.sendHealth();
  robot.sendSamples({ [SAMPLE_METRIC]: 50 });
  const bytes = `bytes of ${org.id}`;
  const release = await org.release({ bytes });
  const config = (await org.api.setConfig({ body: { key: "speed", value: 1, scope: "robot", scope_id: robot.id } })).data;
  await org.api.setConfigSchema({ params: { namespace: "default" }, body: { schema: {} } });
  const config_deployment = await org.deployConfig({ robot_id: robot.id });
  const deployment = await org.deploy(release, { robot_id: robot.id });
  await until("the robot to have what was deployed", async () => {
    const { finished_at } = (await org.api.getDeployment({ params: { id: deployment.id } })).data;
    const config = (await org.api.getConfigDeployment({ params: { id: config_deployment.id } })).data;
    return finished_at !== null && config.finished_at !== null;
  });
  // A period ends before `until`, and a simulated clock does not move.
  const later = new Date(at.getTime() + 60_000).toISOString();
  await until("the robot's samples to be stored", async () => {
    const { groups } = (await org.api.queryMetrics({ query: { name: SAMPLE_METRIC, robot_id: robot.id, until: later } })).data;
    return groups.length > 0;
  });
  const tomorrow = new Date(at.getTime() + 86_400_000).toISOString();
  const scheduled = await org.deploy(release, { robot_id: robot.id }, { scheduled_at: tomorrow });
  const shell_session = await shellSession(org, robot.id);
  const key = (await org.api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  // The server refuses to send to this address.
  const { id: channel } = (await org.api.createChannel({ body: { name: randomUUID(), kind: "webhook", url: "http://127.0.0.1:9/" } })).data;
  const user = (await org.api.createUser({ body: { email: sampleEmail(), name: "Ada", role: "viewer" } })).data;
  const rule_id = await sampleRule(org, fleet_id);
  const token = (await org.api.createToken({ body: { label: "sample", role: "viewer" } })).data;
  return {
    org,
    robot,
    sha256: hash("sha256", bytes),
    enrollment_key: key.key ?? "",
    ids: {
      org_id: org.id,
      site_id,
      fleet_id,
      robot_id: robot.id,
      deployment_id: deployment.id,
      target_id: robot.id,
      scope_id: robot.id,
      user_id: user.id,
      release_id: release.id,
      release: release.id,
      "/api/sites": site_id,
      "/api/fleets": fleet_id,
      "/api/robots": robot.id,
      "/api/releases": release.id,
      "/api/deployments": deployment.id,
      "/api/deployments/cancel": scheduled.id,
      "/api/configs": config.id,
      "/api/configs/deployments": config_deployment.id,
      "/api/enrollment-keys": key.id,
      "/api/users": user.id,
      "/api/tokens": token.id,
      "/api/shell-sessions": shell_session,
      rule_id,
      "/api/alert-mutes": await sampleMute(org, fleet_id),
      "/api/alert-rules": rule_id,
      "/api/incidents": await org.incident({ site_id, fleet_id }),
      "/api/channels": channel,
      "/api/views": await sampleView(org),
      "/api/deliveries": await finishedDelivery(org, channel),
      "/api/admin/orgs": org.id,
    },
  };
}

/** Creates an alert rule of a fleet. */
export async function sampleRule(org: HarnessOrg, fleet_id: string): Promise<string> {
  const condition = { type: "config_drift" as const };
  return (await org.api.createAlertRule({ body: { name: randomUUID(), condition, severity: "info", fleet_id } })).data.id;
}

/** Mutes the incidents of a fleet. */
export const sampleMute = async (org: HarnessOrg, fleet_id: string): Promise<string> =>
  (await org.api.createAlertMute({ body: { fleet_id, until_at: "2099-01-01T00:00:00Z" } })).data.id;

/** Saves a view that all members of the org see. */
export const sampleView = async (org: HarnessOrg): Promise<string> =>
  (await org.api.createView({ body: { page: "robots", name: randomUUID(), query: "status=offline", shared: true } })).data.id;

/** Returns the id of a message that was given up: only such a message can be sent again. */
export async function finishedDelivery(org: HarnessOrg, channel: string): Promise<string> {
  const { id } = (await org.api.testChannel({ params: { id: channel } })).data;
  await org.giveUp(id);
  return id;
}

/** A simulated robot has no shell, but the attempt is recorded. */
async function shellSession(org: HarnessOrg, robot_id: string): Promise<string> {
  for await (const _ of await org.api.stream("shell", { robot_id }));
  let id: string | undefined;
  await until("the end of the shell", async () => {
    const [session] = (await org.api.listShellSessions({ params: { id: robot_id } })).items;
    id = session?.status === "open" ? undefined : session?.id;
    return id !== undefined;
  });
  return id ?? "";
}

/** The values that a sample request needs. */
export type Ids = Pick<Things, "ids" | "sha256" | "enrollment_key">;

export const sampleEmail = (): string => `${randomUUID()}@example.org`;

export interface SampleRequest {
  path: string;
  query: Record<string, string>;
  body: Record<string, unknown> | undefined;
}

/** Fields whose id needs a second field with the kind of the object. `beside` contains that second field and its value. */
const KINDS: Record<string, { beside: Record<string, string> }> = {
  target_id: { beside: { target_kind: "robot" } },
  scope_id: { beside: { scope: "robot" } },
};
const TARGETS = ["robot_id", "fleet_id", "target_id", "target_selector"];

/** Returns a valid value of a field by its name. New fields must be added here. */
function sampleOf(route: Route, name: string, things: Ids): unknown {
  const samples: Record<string, unknown> = {
    name: `sample ${randomUUID()}`,
    email: sampleEmail(),
    role: "viewer",
    label: "sample",
    tag: `sample-${randomUUID()}`,
    artifact_sha256: hash("sha256", randomUUID()),
    artifact_size: 3,
    kind: "webhook",
    url: "https://hooks.example.org/",
    // In config routes this is the name of a config key. In the enrollment route it is the secret of an enrollment key.
    key: route.name === "enrollRobot" ? things.enrollment_key : "speed",
    value: { sample: true },
    schema: {},
    stream: "logs",
    version: 1,
    condition: { type: "config_drift" },
    severity: "info",
    page: "robots",
    query: "status=offline",
    until_at: "2099-01-01T00:00:00Z",
    comment: "sample",
    // The first bytes of a PNG image.
    image: "iVBORw0KGgo=",
    meters_per_pixel: 0.05,
    robot_ids: [things.ids.robot_id],
    public_key: generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("base64"),
    statement: firstStatement(things.ids.org_id ?? ""),
    ...things.ids,
  };
  if (!(name in samples)) throw new Error(`no sample value is known for the field ${name}: add one to sample-requests.ts`);
  return samples[name];
}

/** Returns a self-signed statement with the first signing key of an org. */
function firstStatement(org_id: string): SignedText {
  const { privateKey } = generateKeyPairSync("ed25519");
  const keys = [{ name: "sample", public_key: publicKeyOf(privateKey) }];
  return signTrust({ org_id, serial: 1, require_signature: false, keys, issued_at: "2026-01-01T00:00:00Z" }, privateKey);
}

const propertiesOf = (schema: TObject | undefined): [string, TSchema][] => Object.entries(schema?.properties ?? {});

/** Whether an ID is only compared with stored values and need not exist: audit entries remain after their actor or object is deleted. */
const isCompared = (route: Route, name: string): boolean => name === "actor_id" || (route.path.includes("/audit") && name.endsWith("_id"));

/** Returns the fields of a route that take an id, in the path, the query or the body. */
export function idFields(route: Route): { place: "path" | "query" | "body"; name: string }[] {
  const ids = (place: "query" | "body", schema: TObject | undefined) =>
    propertiesOf(schema)
      .filter(([name]) => (name.endsWith("_id") && !isCompared(route, name)) || name === "release")
      .map(([name]) => ({ place, name }));
  const in_path = propertiesOf(route.params).filter(([name]) => name === "id" || name === "sha256");
  return [...in_path.map(([name]) => ({ place: "path" as const, name })), ...ids("query", route.query), ...ids("body", route.body)];
}

/** Returns the id for the parameter of a route's path. An id that `things` has for the path with its following verb takes precedence. */
function idOfPath(route: Route, things: Ids): string {
  if (route.path.includes("{sha256}")) return things.sha256;
  const [front = "", back = ""] = route.path.split("/{id}");
  return things.ids[front + back] ?? things.ids[front] ?? "";
}

/** Returns a valid request of a route with the ids of `things`. `set` overrides one id field. */
export function sampleRequest(
  route: Route,
  things: Ids,
  set?: { place: "path" | "query" | "body"; name: string; value: string },
): SampleRequest {
  const in_path = set?.place === "path" ? set.value : idOfPath(route, things);
  const namespace = set?.place === "path" ? encodeURIComponent(set.value) : "default";
  const path = route.path.replace(/\{(id|sha256)\}/, encodeURIComponent(in_path)).replace("{namespace}", namespace);
  const needed = ((route.query?.required ?? []) as string[]).map((name) => [name, String(sampleOf(route, name, things))]);
  const query: Record<string, string> = { ...Object.fromEntries(needed), ...(set?.place === "query" ? { [set.name]: set.value } : {}) };
  // Large enough to contain the first objects of all callers: requests of other cells create more.
  if (route.query?.properties.limit !== undefined) query.limit = "1000";
  if (route.name === "queryMetrics" && set?.name !== "name") Object.assign(query, { name: SAMPLE_METRIC, group_by: "robot" });
  if (route.body === undefined) return { path, query, body: undefined };
  const body = Object.fromEntries((route.body.required ?? []).map((name: string) => [name, sampleOf(route, name, things)]));
  if ("robot_id" in route.body.properties && !TARGETS.includes(set?.name ?? "")) body.robot_id = things.ids.robot_id;
  if (route.name === "bulkUpdateRobots") body.labels = { set: { sample: "1" } };
  if (route.name === "createStreamTicket" && set?.name === "fleet_id") body.stream = "fleet_logs";
  if (set?.place === "body") Object.assign(body, KINDS[set.name]?.beside, { [set.name]: set.value });
  return { path, query, body };
}
