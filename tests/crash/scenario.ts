import assert from "node:assert/strict";
import { hash, randomBytes, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import { dockerArchive } from "@roamfleet/protocol/image-archive/testing";
import type { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, STAYS } from "../processes/app-bundle.ts";
import type { Data, Ledger } from "./ledger.ts";

const NUDGE_AFTER_MS = 2_500;
/**
 * Maximum time until a deployment ends. If a target is cancelled before its robot receives it, the robot acknowledges nothing, and the
 * timeout of one minute must pass.
 */
const END_MS = 120_000;
const TWO_AT_ONCE = "two-at-once";
/**
 * A script that takes a file lock and records when another instance holds it. The kernel keeps the lock while the workload or one of its
 * children runs.
 */
const STAYS_ALONE = [
  `here=$(dirname "$ROAMFLEET_CONFIG_DIR")`,
  `exec 9>>"$here/alone"`,
  `flock -n 9 || echo "$$ $ROAMFLEET_RELEASE" >>"$here/${TWO_AT_ONCE}"`,
  STAYS,
].join("\n");

type DeploymentStatus = Parameters<typeof isTerminal>[0];

/** The typical operations of a fleet, in a few seconds. Waits for the result of each step across crashes, and checks its invariants. */
export class Scenario {
  readonly ledger: Ledger;
  robot: () => AgentProcess;
  robot_id = "";
  /** Restarts the robot so that it reconnects without its backoff; optional. */
  restart_robot: (() => Promise<void>) | undefined;
  /** Deployments that have ended. */
  readonly ended: string[] = [];
  #fleet_id = "";
  #rounds = 0;
  #bundles: Buffer[] = [];
  #tags: string[] = [];

  constructor(ledger: Ledger, robot: () => AgentProcess) {
    this.ledger = ledger;
    this.robot = robot;
  }

  /** Creates site, fleet, an enrollment key and three releases: two that run and one that crashes. Returns the key. */
  async prepare(): Promise<{ key: string }> {
    const site = await this.ledger.post("/api/sites", { name: "Yard" });
    const fleet = await this.ledger.post("/api/fleets", { name: "Carts", site_id: site.id });
    this.#fleet_id = fleet.id;
    const sick = { health: { command: ["sh", "-c", "exit 1"] } };
    for (const more of [{}, {}, sick]) this.#bundles.push(await appBundle(STAYS_ALONE, { stop_timeout_seconds: 1, ...more }));
    for (const [index, tag] of ["one", "two", "bad"].entries()) {
      await this.push(tag, this.#bundles[index]!);
      this.#tags.push(tag);
    }
    const key = await this.ledger.post("/api/enrollment-keys", { site_id: site.id, fleet_id: fleet.id });
    return { key: String(key["key"]) };
  }

  async push(tag: string, bytes: Buffer, more: Record<string, unknown> = {}): Promise<string> {
    const about = { tag, kind: "app_bundle", artifact_sha256: hash("sha256", bytes), artifact_size: bytes.length, ...more };
    const { id } = await this.ledger.post("/api/releases", about);
    const { status, text } = await this.ledger.send("PUT", `/api/releases/${id}/artifact`, bytes);
    // Status 409 means that an earlier attempt stored the artifact, but its response was lost.
    assert.ok(status === 200 || status === 409, `the upload of ${tag}: ${status} ${text}`);
    return id;
  }

  /** Waits for the robot to come online for the first time. */
  async waitForRobot(): Promise<void> {
    const look = async (): Promise<string | undefined> => {
      const { text } = await this.ledger.send("GET", "/api/robots?status=online");
      return (JSON.parse(text) as { items: Data[] }).items[0]?.id;
    };
    this.robot_id = await until("the robot to be online", look, { progress: this.ledger.crashes });
    assert.equal(await this.deploy("one"), "applied");
  }

  async deploy(release: string, more: Record<string, unknown> = {}): Promise<string> {
    const made = await this.ledger.post("/api/deployments", {
      release,
      robot_id: this.robot_id,
      rollout: { verify_seconds: 0 },
      ...more,
    });
    return this.end(`/api/deployments/${made.id}`);
  }

  async end(path: string): Promise<string> {
    const nudge = this.#nudging();
    const look = async (): Promise<DeploymentStatus | false> => {
      await nudge();
      const { status } = (await this.ledger.get(path)) as Data & { status: DeploymentStatus };
      return isTerminal(status) && status;
    };
    const status = await until(`${path} to end`, look, { progress: this.ledger.crashes, deadline_ms: END_MS }).catch(
      async (error: unknown) => {
        throw new Error(await this.#explain(path), { cause: error });
      },
    );
    this.ended.push(path);
    return status;
  }

  /** Waits for a condition across crashes of the server, and keeps the robot online. */
  async waits(what: string, look: () => Promise<boolean>): Promise<void> {
    const nudge = this.#nudging();
    await until(
      what,
      async () => {
        await nudge();
        return look();
      },
      { progress: this.ledger.crashes },
    );
  }

  /** Returns the data of a deployment that has not ended in time, for the error message. */
  async #explain(path: string): Promise<string> {
    const seen = await Promise.all(
      [path, `${path}/targets`, `${path}/events?include=targets`, `/api/robots/${this.robot_id}`].map((one) =>
        this.ledger.send("GET", one),
      ),
    );
    return `${path} did not end\n${seen.map(({ text }) => text).join("\n")}\n${this.robot().program.output.slice(-3_000)}`;
  }

  /** Returns the release that all of the robot's processes run, once the server reports the same release. */
  runs(): Promise<string> {
    const nudge = this.#nudging();
    const look = async (): Promise<string | false> => {
      await nudge();
      this.checkAlone();
      const [only, ...more] = new Set(
        this.robot()
          .workloads()
          .map(({ env }) => env.ROAMFLEET_RELEASE ?? ""),
      );
      const { current_release } = (await this.ledger.get(`/api/robots/${this.robot_id}`)) as Data & {
        current_release: { tag: string } | null;
      };
      return more.length === 0 && current_release?.tag === only && only !== undefined && only;
    };
    return until("one version to run, and the server to show it", look, { progress: this.ledger.crashes });
  }

  /** Throws if a workload was ever started while another one, or its child, was running. */
  checkAlone(): void {
    const file = path.join(this.robot().state, TWO_AT_ONCE);
    assert.equal(existsSync(file) ? readFileSync(file, "utf8") : "", "", "two workloads ran concurrently");
  }

  /**
   * Kills the agent as well, so that its next run connects immediately. Otherwise, the reconnect backoff grows to one minute, because the
   * server crashes repeatedly.
   */
  #nudging(): () => Promise<void> {
    let offline_since = performance.now();
    let wait_ms = NUDGE_AFTER_MS;
    return async () => {
      if (this.restart_robot === undefined || performance.now() - offline_since < wait_ms) return;
      offline_since = performance.now();
      // Double the wait, because a restart takes some time, and more on a busy machine.
      wait_ms *= 2;
      if ((await this.ledger.get(`/api/robots/${this.robot_id}`))["status"] !== "offline") return;
      await this.restart_robot();
    };
  }

  /** All operations with the robot: a good and a bad release, a file, a config. */
  async robotRound(): Promise<void> {
    const old = await this.runs();
    const wanted = old === "one" ? "two" : "one";
    assert.equal(await this.deploy(wanted), "applied");
    assert.equal(await this.runs(), wanted);
    assert.equal(await this.deploy("bad"), "rolled_back");
    assert.equal(await this.runs(), wanted);
    await this.#rollBackTwice(wanted, old);
    this.#rounds += 1;
    await this.ledger.post("/api/configs", { key: "speed", value: this.#rounds, namespace: "drive", scope: "org" });
    const config = await this.ledger.post("/api/configs/deployments", { robot_id: this.robot_id, namespace: "drive" });
    assert.equal(await this.end(`/api/configs/deployments/${config.id}`), "applied");
    const file = Buffer.from(`map ${randomUUID()}`);
    const tag = `map-${this.#rounds}-${randomUUID().slice(0, 8)}`;
    await this.push(tag, file, { kind: "file", app: "map" });
    assert.equal(await this.deploy(tag), "applied");
    const held = this.ledger.post("/api/deployments", {
      release: old,
      robot_id: this.robot_id,
      scheduled_at: new Date(Date.now() + 1_000).toISOString(),
      rollout: { verify_seconds: 0 },
    });
    assert.equal(await this.end(`/api/deployments/${(await held).id}`), "applied");
    assert.equal(await this.runs(), old);
  }

  /** Tests manual rollbacks: of an ended deployment, of that rollback itself, and of a deployment that is still running, in any state. */
  async #rollBackTwice(now: string, before: string): Promise<void> {
    const made = await this.ledger.post("/api/deployments", { release: before, robot_id: this.robot_id, rollout: { verify_seconds: 0 } });
    assert.equal(await this.end(`/api/deployments/${made.id}`), "applied");
    const back = await this.ledger.post(`/api/deployments/${made.id}/rollback`);
    assert.equal(await this.end(`/api/deployments/${back.id}`), "applied");
    assert.equal(await this.runs(), now);
    const turned = await this.ledger.post("/api/deployments", { release: before, robot_id: this.robot_id, rollout: { verify_seconds: 1 } });
    const answer = await this.ledger.post(`/api/deployments/${turned.id}/rollback`);
    await this.end(`/api/deployments/${turned.id}`);
    await this.end(`/api/deployments/${answer.id}`);
    assert.equal(await this.runs(), now);
  }

  /** Tests operations that need no connected robot: on sites, fleets, users and keys, and the enrollment and removal of a robot. */
  async deskRound(): Promise<void> {
    const { ledger } = this;
    const name = randomUUID().slice(0, 8);
    const site = await ledger.post("/api/sites", { name: `Site ${name}` });
    await ledger.patch(`/api/sites/${site.id}`, { name: `Yard ${name}` });
    const fleet = await ledger.post("/api/fleets", { name: `Fleet ${name}`, site_id: site.id });
    await ledger.patch(`/api/fleets/${fleet.id}`, { name: `Carts ${name}` });
    const key = await ledger.post("/api/enrollment-keys", { site_id: site.id, fleet_id: fleet.id, max_uses: 1 });
    if (typeof key["key"] === "string") await this.#guest(key["key"], fleet.id);
    await ledger.post(`/api/enrollment-keys/${key.id}/revoke`);
    const later = await ledger.post("/api/deployments", {
      release: "one",
      robot_id: this.robot_id,
      scheduled_at: new Date(Date.now() + 3_600_000).toISOString(),
    });
    await ledger.post(`/api/deployments/${later.id}/cancel`);
    assert.equal(await this.end(`/api/deployments/${later.id}`), "cancelled");
    await ledger.patch(`/api/robots/${this.robot_id}`, { fleet_id: fleet.id });
    await ledger.patch(`/api/robots/${this.robot_id}`, { fleet_id: this.#fleet_id });
    const config = await ledger.post("/api/configs", { key: `k-${name}`, value: 1, namespace: "desk", scope: "site", scope_id: site.id });
    await ledger.remove(`/api/configs/${config.id}`);
    await ledger.remove(`/api/releases/${await this.push(`spare-${name}`, Buffer.from(name), { kind: "file", app: "spare" })}`);
    const layers = [Buffer.from("base"), Buffer.from(name)];
    const image = await this.push(`image-${name}`, dockerArchive(layers), { kind: "container_image", app: "spare" });
    const { images } = await ledger.get(`/api/releases/${image}`);
    assert.equal((images as { layers: unknown[] }[])[0]?.layers.length, layers.length, "a stored image has its layers");
    await ledger.remove(`/api/releases/${image}`);
    await ledger.remove(`/api/fleets/${fleet.id}`);
    ledger.forget(key.id);
    await ledger.remove(`/api/sites/${site.id}`);
  }

  /** Enrolls a simulated robot, which must happen exactly once even with retries. Then removes it. */
  async #guest(key: string, fleet_id: string): Promise<void> {
    const public_key = randomBytes(32).toString("base64");
    const answer = await this.ledger.send("POST", "/agent/enroll", { key, public_key });
    assert.ok(answer.status === 201 || answer.status === 200, `${answer.status} ${answer.text}`);
    const { robot_id } = (JSON.parse(answer.text) as { data: { robot_id: string } }).data;
    await this.ledger.patch(`/api/robots/${robot_id}`, { labels: { guest: "yes" } });
    const later = await this.ledger.post("/api/deployments", { release: "one", fleet_id, rollout: { verify_seconds: 0 } });
    await this.ledger.remove(`/api/robots/${robot_id}`);
    await this.end(`/api/deployments/${later.id}`);
  }
}
