import { hash, randomUUID } from "node:crypto";
import { type Clock, idSource } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { AlertConditionType, Role } from "@roamfleet/protocol";
import type { Rollout, TargetSelector } from "@roamfleet/protocol/routes";
import { type Client, createClient } from "@roamfleet/sdk";
import { type RobotOptions, SimulatedRobot, type Swarm } from "@roamfleet/swarm/testing";
import type { DbEngine } from "../../packages/server/src/engines/db/index.ts";
import { createCredential } from "../../packages/server/src/features/tokens/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";

/** The parts of the plane that an org of the harness uses. */
export interface PlaneSide {
  readonly url: string;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly db: DbEngine;
  readonly swarm: Swarm;
  settle(): Promise<void>;
}

type Release = Awaited<ReturnType<Client["createRelease"]>>["data"];
type Deployment = Awaited<ReturnType<Client["createDeployment"]>>["data"];
type ConfigDeployment = Awaited<ReturnType<Client["createConfigDeployment"]>>["data"];

export interface NewRelease {
  tag?: string;
  app?: string;
  kind?: string;
  bytes?: string | Uint8Array;
  manifest?: Record<string, unknown>;
  /** False: do not upload the artifact. */
  upload?: boolean;
}

type DeploymentTarget = { robot_id: string } | { fleet_id: string } | { target_selector: TargetSelector };

export interface NewRobot extends Omit<RobotOptions, "key"> {
  fleet_id?: string;
  /** False: enroll the robot but do not connect it. */
  online?: boolean;
}

/** One org of a harness, with an admin client and shortcuts that create test data. */
export class HarnessOrg {
  readonly id: string;
  readonly api: Client;
  readonly admin_token: string;
  readonly #harness: PlaneSide;
  #made = 0;
  #site: Promise<string> | undefined;
  #fleet: Promise<string> | undefined;
  readonly #keys = new Map<string, Promise<string>>();

  constructor(harness: PlaneSide, id: string, admin_token: string) {
    this.#harness = harness;
    this.id = id;
    this.admin_token = admin_token;
    this.api = this.client(admin_token);
  }

  /** Returns a client with another token, or without a token. */
  client(token?: string): Client {
    return createClient({ base_url: this.#harness.url, token, fetch: this.#harness.fetch, retries: 0 });
  }

  /** Creates a token of this org. */
  async token(options: { role?: Role; scopes?: { site_id?: string; fleet_id?: string }[]; expires_at?: Date } = {}): Promise<string> {
    const { role = "admin", ...rest } = options;
    const { clock, db } = this.#harness;
    return (
      await createCredential(
        db,
        { clock, id: idSource(clock) },
        { kind: "org", org_id: this.id, role, label: `${role} ${this.#number()}`, ...rest },
      )
    ).secret;
  }

  /** Creates a site and returns its id. */
  async site(name = `Site ${this.#number()}`): Promise<string> {
    return (await this.api.createSite({ body: { name } })).data.id;
  }

  /** Creates a fleet and returns its id. The default site is shared within the harness. */
  async fleet(options: { name?: string; site_id?: string } = {}): Promise<string> {
    const { name = `Fleet ${this.#number()}`, site_id = await (this.#site ??= this.site()) } = options;
    return (await this.api.createFleet({ body: { name, site_id } })).data.id;
  }

  /** Returns the id of the default fleet of robots. */
  homeFleet(): Promise<string> {
    return (this.#fleet ??= this.fleet());
  }

  /** Creates an enrollment key and returns its secret. */
  async enrollmentKey(options: { fleet_id?: string; max_uses?: number; expires_in_hours?: number } = {}): Promise<string> {
    const { fleet_id = await this.homeFleet(), max_uses = 0, expires_in_hours = 0 } = options;
    const { site_id } = (await this.api.getFleet({ params: { id: fleet_id } })).data;
    const { key } = (await this.api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses, expires_in_hours } })).data;
    if (key === null) throw new Error("the response contains no key");
    return key;
  }

  /** Creates a release and by default uploads its artifact. Each release has different bytes. */
  async release(options: NewRelease = {}): Promise<Release> {
    const { tag = `release-${this.#number()}`, app, kind = "file", manifest, bytes = `content of ${tag}`, upload = true } = options;
    const content = Buffer.from(bytes);
    const body = { tag, app, kind, manifest, artifact_sha256: hash("sha256", content), artifact_size: content.length };
    const { data } = await this.api.createRelease({ body });
    return upload ? this.upload(data.id, content) : data;
  }

  /** Uploads a release's artifact; the bytes default to those of `release`. */
  async upload(release_id: string, bytes?: Uint8Array): Promise<Release> {
    const content = bytes ?? Buffer.from(`content of ${(await this.api.getRelease({ params: { id: release_id } })).data.tag}`);
    const response = await this.api.request("PUT", `/api/releases/${release_id}/artifact`, {
      body: Uint8Array.from(content),
      headers: { "content-type": "application/octet-stream" },
    });
    const body = (await response.json()) as { data: Release };
    if (response.status !== 200) throw new Error(`the upload failed with ${response.status} ${JSON.stringify(body)}`);
    return body.data;
  }

  /** Returns the id of the default alert rule with this condition, once the server has created it. */
  async defaultRule(condition: AlertConditionType): Promise<string> {
    const find = async () => (await this.api.listAlertRules({})).items.find(({ condition: of }) => of.type === condition)?.id;
    return await until(`the default rule ${condition}`, find);
  }

  /** Inserts a resolved incident of a fleet. Returns its id. */
  async incident({ site_id, fleet_id }: { site_id: string; fleet_id: string }): Promise<string> {
    const { db } = this.#harness;
    const id = `inc_${randomUUID().replaceAll("-", "").slice(0, 26)}`;
    const at = new Date("2020-01-01T00:00:00Z");
    await db.run(sql`
      insert into incident (org_id, id, rule_id, title, severity, group_id, site_id, fleet_id, status, member_count, active_count, raised_at, joined_at,
        resolved_at, created_at, updated_at)
      values (${this.id}, ${id}, 'alr_sample', 'sample', 'info', ${fleet_id}, ${site_id}, ${fleet_id}, 'resolved', 0, 0, ${at}, ${at}, ${at}, ${at}, ${at})`);
    return id;
  }

  /** Inserts a channel of alerts that has no messages, regardless of the limit of channels. Returns its id. */
  async emptyChannel(): Promise<string> {
    const id = `chn_${randomUUID()}`;
    const at = new Date("2020-01-01T00:00:00Z");
    await this.#harness.db.run(sql`
      insert into alert_channel (org_id, id, name, kind, destination, sealed, created_at, updated_at)
      values (${this.id}, ${id}, ${id}, 'webhook', 'sample', '', ${at}, ${at})`);
    return id;
  }

  /** Marks a message of an alert as given up. */
  async giveUp(delivery_id: string): Promise<void> {
    await this.#harness.db.run(sql`
      update alert_delivery set status = 'failed', next_attempt_at = null where org_id = ${this.id} and id = ${delivery_id}`);
  }

  /** Enrolls a robot, connects it by default, and waits until the plane is idle. */
  async enrollRobot(options: NewRobot = {}): Promise<SimulatedRobot> {
    const robot = await this.#enroll(options);
    await this.#harness.settle();
    return robot;
  }

  /** Enrolls several robots, whose names end with their number. */
  async enrollRobots(count: number, options: NewRobot = {}): Promise<SimulatedRobot[]> {
    const robots: SimulatedRobot[] = [];
    for (let made = 0; made < count; made += ENROLL_AT_ONCE) {
      robots.push(...(await Promise.all(Array.from({ length: Math.min(ENROLL_AT_ONCE, count - made) }, () => this.#enroll(options)))));
    }
    await this.#harness.settle();
    return robots;
  }

  async #enroll({ fleet_id, online = true, name = `robot-${this.#number()}`, ...options }: NewRobot): Promise<SimulatedRobot> {
    const fleet = fleet_id ?? (await this.homeFleet());
    const known = this.#keys.get(fleet) ?? this.enrollmentKey({ fleet_id: fleet });
    this.#keys.set(fleet, known);
    const robot = await SimulatedRobot.enroll(this.#harness.swarm, { ...options, key: await known, name });
    if (online) await robot.connect();
    return robot;
  }

  /** Creates a deployment and returns the response. The deployment may still be running. */
  async deploy(
    release: { id: string },
    target: DeploymentTarget,
    options: { scheduled_at?: string; rollout?: Rollout; idempotency_key?: string } = {},
  ): Promise<Deployment> {
    const { idempotency_key = randomUUID(), ...rest } = options;
    return (await this.api.createDeployment({ body: { release: release.id, ...target, ...rest }, idempotency_key })).data;
  }

  async deployConfig(
    target: DeploymentTarget,
    options: { namespace?: string; scheduled_at?: string; rollout?: Rollout } = {},
  ): Promise<ConfigDeployment> {
    return (await this.api.createConfigDeployment({ body: { ...target, ...options }, idempotency_key: randomUUID() })).data;
  }

  async deployment(id: string): Promise<Deployment> {
    return (await this.api.getDeployment({ params: { id } })).data;
  }

  /** Returns the kinds of a deployment's events, oldest first; with `targets`, including those of its targets. */
  async events(id: string, options: { targets?: boolean } = {}): Promise<string[]> {
    const query = options.targets === true ? { include: "targets" as const, limit: 1_000 } : undefined;
    return (await this.api.listDeploymentEvents({ params: { id }, query })).items.map(({ kind }) => kind);
  }

  /** Returns the targets of a deployment by robot id. */
  async targets(id: string): Promise<Map<string, Awaited<ReturnType<Client["listDeploymentTargets"]>>["items"][number]>> {
    return new Map((await this.api.listDeploymentTargets({ params: { id } })).items.map((target) => [target.robot_id, target]));
  }

  #number(): number {
    return (this.#made += 1);
  }
}

const ENROLL_AT_ONCE = 25;
