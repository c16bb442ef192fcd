import { encodeChunk, type HealthBody } from "@roamfleet/protocol/link";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";
import { flush, addPoint } from "../../packages/server/src/features/health/history.ts";
import { storeSamples } from "../../packages/server/src/features/metrics/index.ts";
import { rollUpDue } from "../../packages/server/src/features/metrics/roll-up.ts";
import type { HarnessOrg } from "../harness/harness-org.ts";
import type { Harness } from "../harness/index.ts";
import { PLAIN, type Words } from "./words.ts";

const GIB = 1024 ** 3;

export interface SceneOptions {
  words?: Words;
  /** Number of robots in the largest fleet. */
  robots?: number;
}

/** An organization after some weeks of use: objects of every kind, some of them failing. */
export interface Scene {
  /** All pages of the dashboard, with the names of their screenshots. */
  pages: readonly { name: string; path: string }[];
  robot: SimulatedRobot;
  offline: SimulatedRobot;
}

/** Creates the scene in the plane's default organization. Returns once all deployments have ended, except the one that awaits promotion. */
export async function makeScene(server: Harness, { words = PLAIN, robots = 12 }: SceneOptions = {}): Promise<Scene> {
  const org = server.default_org;
  await org.api.updateOrg({ body: { name: words.name("Acme Robotics") } });
  const fleets = await makePlaces(org, words);
  const carts = await Promise.all(
    Array.from({ length: robots }, (_, at) =>
      org.enrollRobot({ fleet_id: fleets.carts, name: words.name(`cart-${String(at + 1).padStart(2, "0")}`) }),
    ),
  );
  const offline = await org.enrollRobot({ fleet_id: fleets.arms, name: words.name("arm-01") });
  await org.enrollRobot({ fleet_id: fleets.arms, name: words.name("arm-02"), online: false });
  const robot = carts[0] as SimulatedRobot;
  await org.api.updateRobot({ params: { id: robot.id }, body: { labels: { zone: words.name("north"), model: "c-200" } } });
  await sendHealth(server, carts, words);
  await storeMetrics(server, carts.slice(0, MEASURED_CARTS));
  await storePlaces(server, carts);
  sendLogs(robot, words);
  const releases = await makeReleases(org, words);
  const ids = await deployAll(server, { releases, carts, fleet_id: fleets.carts, words });
  const configs = await makeConfigs(server, { robot, fleet_id: fleets.carts, words });
  const people = await makePeople(org, fleets, words);
  const shell = await askForShell(server, robot.id);
  await offline.disconnect();
  await server.until(
    "the arm to be offline",
    async () => (await org.api.getRobot({ params: { id: offline.id } })).data.status === "offline",
  );
  const incident = await awaitIncident(server, words);
  return {
    pages: pagesOf({
      ...fleets,
      ...ids,
      ...configs,
      ...people,
      shell,
      incident,
      robot: robot.id,
      offline: offline.id,
      release: releases.good.id,
    }),
    robot,
    offline,
  };
}

async function makePlaces(org: HarnessOrg, words: Words): Promise<{ site: string; carts: string; arms: string }> {
  const site = await org.site(words.name("Rotterdam, hall 2"));
  const other = await org.site(words.name("Aachen"));
  const carts = await org.fleet({ name: words.name("Picking carts"), site_id: site });
  const arms = await org.fleet({ name: words.name("Arms"), site_id: site });
  await org.fleet({ name: words.name("Sweepers"), site_id: other });
  return { site, carts, arms };
}

const SAMPLE_SECONDS = 10;

/** Carts with metrics. */
const MEASURED_CARTS = 5;

/** Stores an hour of samples of robots, except for some minutes in which they were off. */
async function storeMetrics(server: Harness, robots: readonly SimulatedRobot[]): Promise<void> {
  for (const [at, { id }] of robots.entries()) await storeSamplesOf(server, id, at);
  // The list of metrics is read from rollups.
  await rollUpDue(server.plane);
}

async function storeSamplesOf({ plane, default_org, clock }: Harness, robot_id: string, at: number): Promise<void> {
  const start = clock.now().getTime() - 3_600_000;
  for (const [seq, [from, until]] of [
    [0, 2_000],
    [2_600, 3_590],
  ].entries()) {
    const seconds = Array.from({ length: ((until ?? 0) - (from ?? 0)) / SAMPLE_SECONDS }, (_, i) => (from ?? 0) + i * SAMPLE_SECONDS);
    const times = seconds.map((second) => start + second * 1_000);
    const series = (name: string, valueAt: (second: number) => number, labels: Record<string, string> = {}) => ({
      name,
      labels,
      times,
      values: seconds.map((second) => Math.round(valueAt(second) * 10) / 10),
    });
    const chunk = encodeChunk([
      series("cpu_percent", (second) => 30 + 8 * at + 25 * Math.sin(second / 300 + at / 2)),
      series("memory_used_bytes", (second) => GIB + second * 100_000),
      series("disk_used_bytes", (second) => 12 * GIB + second * 10_000, { mount: "/" }),
      series("disk_used_bytes", () => 3 * GIB, { mount: "/data" }),
      series("network_receive_bytes", (second) => second * 2_000, { interface: "wlan0" }),
    ]);
    await storeSamples(plane, default_org.id, robot_id, { outbox_id: "spool", seq: seq + 1, chunk });
  }
}

/** Stores a position of each cart: near to each other, and one of some hours ago. */
async function storePlaces({ plane, default_org, clock }: Harness, carts: readonly SimulatedRobot[]): Promise<void> {
  for (const [at, { id }] of carts.entries()) {
    const time = clock.now().getTime() - 60_000 - (at === 3 ? 4 * 3_600_000 : 0);
    const of = (name: string, value: number) => ({ name: `position_${name}`, labels: {}, times: [time], values: [value] });
    const east = 12 * (at % 5) + (at === 1 ? 1 : 0);
    const north = 9 * Math.floor(at / 3);
    const chunk = encodeChunk([
      of("latitude_degrees", 51.92 + north / 111_000),
      of("longitude_degrees", 4.48 + east / 68_000),
      of("x_meters", east),
      of("y_meters", north),
      of("heading_degrees", at * 40),
    ]);
    await storeSamples(plane, default_org.id, id, { outbox_id: "places", seq: 1, chunk });
  }
}

const HOUR_MIN = 60;
/** Maximum health points of a robot that the server keeps in memory. */
const POINTS_AT_ONCE = 30;

/** Sends health: two robots are unhealthy, and the first one has a history of one hour. */
async function sendHealth(server: Harness, carts: readonly SimulatedRobot[], words: Words): Promise<void> {
  const [first] = carts as [SimulatedRobot];
  const { plane, default_org } = server;
  const now_ms = server.clock.now().getTime();
  for (let minutes = HOUR_MIN; minutes > 0; minutes -= 1) {
    addPoint(plane, default_org.id, first.id, healthOf(0, words, minutes), new Date(now_ms - minutes * 60_000));
    if (minutes % POINTS_AT_ONCE === 1) await flush(plane, server.clock.now());
  }
  for (const [at, cart] of carts.entries()) cart.sendHealth(healthOf(at, words));
}

type Snapshot = Pick<HealthBody, "cpu" | "memory" | "battery" | "disks" | "network" | "checks">;

/** Returns the health of a cart some minutes ago. */
function healthOf(at: number, words: Words, minutes_ago = 0): Snapshot {
  const wave = Math.sin(minutes_ago / 7) + Math.sin(minutes_ago / 2.3) / 2;
  return {
    cpu: { percent: 20 + ((at * 7) % 60) + 9 * wave, load_1m: 0.8, cores: 4, temperature_celsius: 48 + at + 4 * wave },
    memory: { used_bytes: GIB + at * 90 * 1024 ** 2 + minutes_ago * 1024 ** 2, total_bytes: 4 * GIB },
    disks: [
      { mount: "/", used_bytes: 21 * GIB, total_bytes: 64 * GIB },
      { mount: words.name("/data").slice(0, 200), used_bytes: 220 * GIB - minutes_ago * 0.4 * GIB, total_bytes: 256 * GIB },
    ],
    battery: { percent: 94 - at * 5 - minutes_ago / 4, charging: at === 0 },
    network: [{ name: "wlan0", rx_bytes: 5 * GIB, tx_bytes: GIB, addresses: ["10.20.0.17"] }],
    checks: [
      {
        name: words.name("lidar"),
        status: at % 6 === 4 ? "error" : "ok",
        message: words.text(at % 6 === 4 ? "no scan for 12 s" : "10 Hz").slice(0, 900),
      },
      { name: words.name("clock"), status: at % 6 === 5 ? "warn" : "ok", message: "offset 3 ms" },
    ],
  };
}

function sendLogs(robot: SimulatedRobot, words: Words): void {
  const lines = [
    "goal reached in 14.2 s",
    "battery at 71 %",
    "obstacle ahead, going around",
    "costmap updated",
    "lost localization, recovering",
  ];
  for (let at = 0; at < 60; at += 1) {
    const level = at % 17 === 0 ? "error" : at % 7 === 0 ? "warn" : "info";
    robot.log(words.text(lines[at % lines.length] ?? ""), {
      level,
      source: at % 3 === 0 ? words.name("nav") : "main",
      fields: { lap: at },
    });
  }
}

interface Releases {
  good: { id: string };
  next: { id: string };
  bad: { id: string };
}

async function makeReleases(org: HarnessOrg, words: Words): Promise<Releases> {
  const good = await org.release({ tag: words.name("nav-2.3.0"), app: "nav", kind: "app_bundle" });
  const next = await org.release({ tag: words.name("nav-2.4.0"), app: "nav", kind: "app_bundle" });
  const bad = await org.release({ tag: words.name("nav-2.5.0-rc1"), app: "nav", kind: "app_bundle" });
  await org.release({ tag: words.name("grasp-model-7"), app: "grasp", kind: "file", upload: false });
  return { good, next, bad };
}

async function deployAll(
  server: Harness,
  { releases, carts, fleet_id, words }: { releases: Releases; carts: readonly SimulatedRobot[]; fleet_id: string; words: Words },
): Promise<{ done: string; failed: string; running: string }> {
  const org = server.default_org;
  const ended = (id: string) => server.until("a deployment to end", async () => (await org.deployment(id)).finished_at !== null);
  const done = await org.deploy(releases.good, { fleet_id }, { rollout: { verify_seconds: 0 } });
  await ended(done.id);
  const [first, second] = carts as [SimulatedRobot, SimulatedRobot];
  second.behave({ failure: { at: "verifying", reason: words.text("health_check_failed").slice(0, 80) } }, releases.bad.id);
  const failed = await org.deploy(releases.bad, { robot_id: second.id }, { rollout: { verify_seconds: 0 } });
  await ended(failed.id);
  const running = await org.deploy(
    releases.next,
    { fleet_id },
    { rollout: { waves: [{ count: 1, gate: "manual" }, { percent: 100 }], verify_seconds: 0, max_parallel: 4 } },
  );
  await server.until("the first wave", async () => first.runs("nav") !== undefined && (await org.targets(running.id)).size > 0);
  const tomorrow = new Date(server.clock.now().getTime() + 86_400_000).toISOString();
  await org.deploy(releases.good, { robot_id: second.id }, { scheduled_at: tomorrow });
  return { done: done.id, failed: failed.id, running: running.id };
}

async function makeConfigs(
  server: Harness,
  { robot, fleet_id, words }: { robot: SimulatedRobot; fleet_id: string; words: Words },
): Promise<{ config: string; config_deployment: string; config_rollout: string }> {
  const org = server.default_org;
  const set = async (key: string, value: unknown, where: { scope?: "fleet" | "robot"; scope_id?: string } = {}): Promise<string> =>
    (await org.api.setConfig({ body: { key, value, ...where } })).data.id;
  const config = await set("max_speed", 1.2);
  await set("max_speed", 0.8, { scope: "fleet", scope_id: fleet_id });
  await set("max_speed", 0.4, { scope: "robot", scope_id: robot.id });
  await set("max_speed", 1.4);
  await set(words.name("greeting"), words.text("hello"));
  await set("charging", { from_percent: 20, [words.name("note")]: words.text("at the dock") });
  await org.api.setConfigSchema({
    params: { namespace: "default" },
    body: {
      schema: { type: "object", properties: { max_speed: { type: "number", maximum: 2, description: words.text("m/s").slice(0, 500) } } },
    },
  });
  const { id } = await org.deployConfig({ fleet_id });
  await server.until("the config deployment to end", async () => {
    return (await org.api.getConfigDeployment({ params: { id } })).data.finished_at !== null;
  });
  const rollout = { waves: [{ count: 1, gate: "manual" as const, gate_incidents: "warning" as const }], on_failure: "pause" as const };
  const config_rollout = (await org.deployConfig({ fleet_id }, { rollout })).id;
  await server.until("the second wave of configs to await promotion", async () => {
    const { items } = await org.api.listConfigDeploymentWaves({ params: { id: config_rollout } });
    return items.some(({ status }) => status === "gate");
  });
  robot.editConfig("default", `${JSON.stringify({ max_speed: 9, note: words.text("by hand") }, null, 2)}\n`);
  return { config, config_deployment: id, config_rollout };
}

async function makePeople(org: HarnessOrg, { site, carts }: { site: string; carts: string }, words: Words): Promise<{ user: string }> {
  await org.api.createEnrollmentKey({
    body: { site_id: site, fleet_id: carts, label: words.name("carts of March"), max_uses: 20, expires_in_hours: 48 },
  });
  const { data } = await org.api.createUser({ body: { email: "ada@example.org", name: words.name("Ada Lovelace"), role: "operator" } });
  await org.api.createView({ body: { page: "robots", name: words.name("Offline robots"), query: "status=offline", shared: true } });
  await org.api.createUser({ body: { email: "grace@example.org", name: words.name("Grace Hopper"), role: "viewer" } });
  await org.api.createToken({ body: { label: words.name("CI"), role: "operator" } });
  return { user: data.id };
}

/** Requests a shell. Simulated robots have none, but the attempt is recorded. */
async function askForShell(server: Harness, robot_id: string): Promise<string> {
  const { api } = server.default_org;
  for await (const _ of await api.stream("shell", { robot_id }));
  return server.until("the end of the shell", async () => {
    const [session] = (await api.listShellSessions({ params: { id: robot_id } })).items;
    return session?.status === "open" ? undefined : session?.id;
  });
}

/** Lets offline robots open an incident immediately, and comments on it. Returns its id. */
async function awaitIncident(server: Harness, words: Words): Promise<string> {
  const { api } = server.default_org;
  const rule_id = await server.default_org.defaultRule("robot_offline");
  await api.updateAlertRule({ params: { id: rule_id }, body: { name: words.name("Robot offline"), for_seconds: 0 } });
  const incident = await server.until("an incident", async () => (await api.listIncidents({ query: { rule_id } })).items[0]);
  const params = { id: incident.id };
  await api.commentIncident({ params, body: { comment: words.text("the dock has no power").slice(0, 4_000) } });
  return incident.id;
}

type Ids = Record<
  | "site"
  | "carts"
  | "robot"
  | "offline"
  | "release"
  | "running"
  | "failed"
  | "done"
  | "config"
  | "config_deployment"
  | "config_rollout"
  | "shell"
  | "incident",
  string
>;

const exploreUrl = (panels: object[]): string => `/explore?panels=${encodeURIComponent(JSON.stringify(panels))}`;

const pagesOf = (ids: Ids): Scene["pages"] => [
  { name: "overview", path: "/" },
  { name: "incidents", path: "/incidents" },
  { name: "incidents-none", path: "/incidents?severity=info" },
  { name: "incident", path: `/incidents/${ids.incident}` },
  { name: "alert-rules", path: "/alert-rules" },
  { name: "report", path: "/report" },
  { name: "metrics", path: exploreUrl([{ name: "cpu_percent", group_by: "robot" }]) },
  { name: "metrics-panels", path: exploreUrl([{ name: "memory_used_bytes", fleet_id: ids.carts }, { name: "network_receive_bytes" }]) },
  { name: "metrics-none", path: exploreUrl([{ name: "no_such_metric" }]) },
  { name: "map", path: "/map" },
  { name: "map-plan", path: "/map?frame=plan" },
  { name: "logs", path: "/logs" },
  { name: "logs-none", path: "/logs?q=no-record-has-this-text" },
  { name: "robots", path: "/robots" },
  { name: "robots-view", path: "/robots?status=offline" },
  { name: "robots-none", path: "/robots?q=no-robot-has-this-name" },
  { name: "robot", path: `/robots/${ids.robot}` },
  { name: "robot-offline", path: `/robots/${ids.offline}` },
  { name: "robot-health", path: `/robots/${ids.robot}/health` },
  { name: "robot-metrics", path: `/robots/${ids.robot}/metrics` },
  { name: "offline-robot-metrics", path: `/robots/${ids.offline}/metrics` },
  { name: "robot-config", path: `/robots/${ids.robot}/config` },
  { name: "robot-timeline", path: `/robots/${ids.robot}/timeline` },
  { name: "robot-logs", path: `/robots/${ids.robot}/logs` },
  { name: "robot-shell", path: `/robots/${ids.robot}/shell` },
  { name: "robot-camera", path: `/robots/${ids.robot}/camera` },
  { name: "robot-topics", path: `/robots/${ids.robot}/topics` },
  { name: "fleets", path: "/fleets" },
  { name: "fleet", path: `/fleets/${ids.carts}` },
  { name: "fleet-logs", path: `/fleets/${ids.carts}/logs` },
  { name: "sites", path: "/sites" },
  { name: "site", path: `/sites/${ids.site}` },
  { name: "deployments", path: "/deployments" },
  { name: "deployment-new", path: `/deployments/new?release=${ids.release}&fleet_id=${ids.carts}` },
  { name: "deployment-new-selection", path: `/deployments/new?release=${ids.release}&site_id=${ids.site}&labels=model%3Dc-200` },
  { name: "deployment", path: `/deployments/${ids.running}` },
  { name: "deployment-failed", path: `/deployments/${ids.failed}` },
  { name: "deployment-compare", path: `/deployments/compare?a=${ids.done}&b=${ids.running}` },
  { name: "config-deployment", path: `/config-deployments/${ids.config_deployment}` },
  { name: "config-deployment-waves", path: `/config-deployments/${ids.config_rollout}` },
  { name: "releases", path: "/releases" },
  { name: "release", path: `/releases/${ids.release}` },
  { name: "configs", path: "/configs" },
  { name: "config", path: `/configs/${ids.config}` },
  { name: "config-drift", path: "/configs/drift" },
  { name: "config-schemas", path: "/configs/schemas" },
  { name: "enrollment", path: "/enrollment" },
  { name: "enrollment-new", path: "/enrollment/new" },
  { name: "users", path: "/users" },
  { name: "tokens", path: "/users/tokens" },
  { name: "shells", path: "/shells" },
  { name: "shell", path: `/shells/${ids.shell}` },
  { name: "audit", path: "/audit" },
  { name: "settings", path: "/settings" },
  { name: "account", path: "/account" },
  { name: "admin", path: "/admin" },
  { name: "not-found", path: "/no/such/page" },
];
