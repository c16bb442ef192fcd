import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import { installCommand } from "@roamfleet/protocol/install-command";
import type { Deployment } from "@roamfleet/protocol/routes";
import { type Body, type Client, createClient } from "@roamfleet/sdk";
import metadata from "../../package.json" with { type: "json" };
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { buildPackages } from "./build-packages.ts";
import { VirtualMachine, type VirtualMachineOptions } from "./virtual-machine.ts";

const END_MS_MAX = 600_000;
const VERIFY_SECONDS = 2;
const AGENT = "roamfleet-agent";
/** Address at which the virtual machine reaches this host. */
const HOST = "10.0.2.100";
/** Writes its pid, then prints numbered lines. */
const COUNTER =
  'echo $$ >/var/tmp/app.pid; trap "exit 0" TERM; n=0; while :; do n=$((n+1)); echo "line $n of $ROAMFLEET_RELEASE"; sleep 0.5; done';
export const PACKAGED: string = metadata.version;

interface Fleet {
  site_id: string;
  fleet_id: string;
}

interface AppOptions {
  app?: string;
  script?: string;
  /** Fields to add to the app's manifest. */
  manifest?: Record<string, unknown>;
}

/** A virtual machine with Debian, on which the packages of this clone are installed from a server on this host. */
export class RobotInVm implements AsyncDisposable {
  readonly machine: VirtualMachine;
  readonly api: Client;
  readonly #stack: AsyncDisposableStack;
  readonly #scratch: string;
  readonly #fleet: Fleet;
  readonly #token: string;

  private constructor(made: {
    stack: AsyncDisposableStack;
    scratch: string;
    machine: VirtualMachine;
    api: Client;
    fleet: Fleet;
    token: string;
  }) {
    this.#stack = made.stack;
    this.#scratch = made.scratch;
    this.machine = made.machine;
    this.api = made.api;
    this.#fleet = made.fleet;
    this.#token = made.token;
  }

  /** Builds the packages, starts a server that hosts them, and boots a machine with nothing of ours. */
  static async start(options: Pick<VirtualMachineOptions, "qemu" | "initrd" | "disks"> = {}): Promise<RobotInVm> {
    await using stack = new AsyncDisposableStack();
    const scratch = fs.mkdtempSync(path.join(tmpdir(), "roamfleet-robot-in-vm-"));
    stack.defer(() => fs.rmSync(scratch, { recursive: true, force: true }));
    const packages = path.join(scratch, "packages");
    buildPackages(packages, "--arch", "amd64", "--only", "agent");
    const server = stack.use(await ServerProcess.start({ args: ["--tls", "auto", "--tls-name", HOST, "--packages", packages], nodes: 1 }));
    const { token } = await server.org("Machines");
    const api = createClient({ base_url: server.url, ca: server.ca, token });
    const site_id = (await api.createSite({ body: { name: "Site" } })).data.id;
    const fleet = { site_id, fleet_id: (await api.createFleet({ body: { name: "Fleet", site_id } })).data.id };
    const machine = stack.use(await VirtualMachine.start({ ...options, servers: [server.url] }));
    return new RobotInVm({ stack: stack.move(), scratch, machine, api, fleet, token });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }

  /** Installs the agent by the command that `rf keys new` prints. Resolves when the robot is online, with the time in ms. */
  async install(): Promise<number> {
    const { key } = (await this.api.createEnrollmentKey({ body: this.#fleet })).data;
    const url = this.machine.reach(this.api.base_url);
    // The script contains the address at which it is requested, so its checksum depends on it.
    const { install } = (await this.#get(`${url}/api/packages`)).data;
    assert.ok(install != null && key !== null);
    const command = installCommand(install, url, key).replace("sudo ", "");
    const began = performance.now();
    await this.machine.sh(`cd /root && ${command}`, { timeout_ms: END_MS_MAX });
    assert.equal((await this.robot()).status, "online");
    return Math.round(performance.now() - began);
  }

  async #get(url: string): Promise<Body<"getHostedPackages">> {
    const header = `authorization: Bearer ${this.#token}`;
    return JSON.parse(await this.machine.run(["curl", "-kfsS", "-H", header, url])) as Body<"getHostedPackages">;
  }

  /** Returns the robot. There is always exactly one robot: an agent that lost its identity would enroll as another one. */
  async robot() {
    const { items } = await this.api.listRobots();
    assert.equal(items.length, 1);
    return items[0]!;
  }

  /** Deploys a release to the robot. Returns the deployment's id. */
  async deploy(release: string): Promise<string> {
    const body = { release, fleet_id: this.#fleet.fleet_id, rollout: { verify_seconds: VERIFY_SECONDS } };
    return (await this.api.createDeployment({ body, idempotency_key: randomUUID() })).data.id;
  }

  ended(id: string): Promise<Deployment> {
    return until(
      `deployment ${id} to end`,
      async () => {
        const { data } = await this.api.getDeployment({ params: { id } });
        return isTerminal(data.status) && data;
      },
      { deadline_ms: END_MS_MAX, despite_errors: true, detail: () => this.machine.console_output.slice(-2_000) },
    );
  }

  /** Creates a release of an app. By default, the app prints numbered lines and has the name `main`. */
  async pushApp(tag: string, { app, script = COUNTER, manifest }: AppOptions = {}): Promise<string> {
    return pushBundle(this.api, tag, await appBundle(script, manifest), app === undefined ? {} : { app });
  }

  /** Creates a release of another version of the packaged agent. `program`: a program instead of the agent. */
  async pushAgent(version: string, program?: string): Promise<string> {
    const tree = path.join(this.#scratch, `agent-${version}`);
    fs.mkdirSync(tree);
    const packaged = path.join(this.#scratch, "packages", `${AGENT}_${PACKAGED}_amd64.tar.gz`);
    execFileSync("tar", ["--extract", "--gzip", "--file", packaged, "--directory", tree]);
    const about = path.join(tree, "agent.json");
    fs.writeFileSync(about, JSON.stringify({ ...(JSON.parse(fs.readFileSync(about, "utf8")) as object), version }));
    for (const name of fs.readdirSync(tree).filter((file) => file.endsWith(".mjs"))) {
      const file = path.join(tree, name);
      fs.writeFileSync(file, fs.readFileSync(file, "utf8").replaceAll(`version:"${PACKAGED}",made_at`, `version:"${version}",made_at`));
    }
    if (program !== undefined) fs.writeFileSync(path.join(tree, "rf-agent.mjs"), program);
    const archive = path.join(this.#scratch, `${version}.tar.gz`);
    execFileSync("tar", ["--create", "--use-compress-program=gzip -1", "--file", archive, "--directory", tree, "."]);
    const manifest = { version, arch: "amd64" };
    return pushBundle(this.api, `agent-${version}`, fs.readFileSync(archive), { kind: "agent", app: AGENT, manifest });
  }

  /** Sets a value for the robot's fleet, and deploys its configs. */
  async deployConfig(namespace: string, key: string, value: unknown): Promise<void> {
    await this.api.setConfig({ body: { namespace, key, scope: "fleet", scope_id: this.#fleet.fleet_id, value } });
    const body = { robot_id: (await this.robot()).id };
    const { id } = (await this.api.createConfigDeployment({ body, idempotency_key: randomUUID() })).data;
    const end = await this.machine.until("the config deployment to end", async () => {
      const { data } = await this.api.getConfigDeployment({ params: { id } });
      return isTerminal(data.status) && data.status;
    });
    assert.equal(end, "applied");
  }

  /** Why a deployment failed on the robot, in the words of the agent. */
  async reason(id: string): Promise<string> {
    const { items } = await this.api.listDeploymentEvents({ params: { id }, query: { include: "targets" } });
    return items.map(({ message, data }) => `${message} ${JSON.stringify(data)}`).join("\n");
  }

  /** Waits until the robot's log contains such a message. */
  async logged(pattern: RegExp): Promise<void> {
    await this.machine.until(`a log message ${pattern}`, async () => (await this.messages()).some((message) => pattern.test(message)));
  }

  /** Returns all messages of the robot's log. */
  async messages(): Promise<string[]> {
    const { id } = await this.robot();
    const pages = await Array.fromAsync(this.api.pages("listRobotLogs", { params: { id }, query: { limit: 1_000 } }));
    return pages.flatMap(({ items }) => items).map(({ message }) => message);
  }

  /** Pid and start time of the app's program: together they identify the process. Throws if it does not run. */
  app(): Promise<string> {
    return this.machine.sh('pid=$(cat /var/tmp/app.pid); echo "$pid since $(cut -d" " -f22 "/proc/$pid/stat")"');
  }

  /** Tag of the release that the app's program was started from. */
  async appRelease(): Promise<string> {
    return (await this.machine.sh('tr "\\0" "\\n" <"/proc/$(cat /var/tmp/app.pid)/environ" | sed -n s/^ROAMFLEET_RELEASE=//p')).trim();
  }

  /** Pids of all agents in the machine. */
  async agents(): Promise<string[]> {
    const { stdout } = await this.machine.exec(["pgrep", "--full", "^/opt/roamfleet/agent/.*/bin/node .*rf-agent.mjs run"]);
    return stdout.split("\n").filter(Boolean);
  }

  /** Version of the agent that starts at the next boot. */
  async current(): Promise<string> {
    return (await this.machine.run(["readlink", "/opt/roamfleet/agent/current"])).trim();
  }

  /** Waits until one agent runs, with another pid than these, and is connected. */
  async reconnected(before: readonly string[]): Promise<void> {
    await this.machine.until("one agent to run", async () => {
      const now = await this.agents();
      return now.length === 1 && !before.includes(now[0]!);
    });
    await this.machine.until("the link to be up", async () => {
      const [pid] = await this.agents();
      const log = await this.machine.run(["journalctl", `_PID=${pid}`, "--output=cat", "--no-pager"]);
      return log.includes("link is up");
    });
  }
}
