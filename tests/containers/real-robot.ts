import { hash, randomUUID } from "node:crypto";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import type { Client } from "@roamfleet/sdk";
import type { DockerEngine } from "../../packages/agent/src/testing/docker-engine.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { ServerProcess } from "../processes/server-process.ts";

/** Creates a release of an image archive, or of an image in a registry, and uploads the archive. Returns its id. */
export async function pushImage(api: Client, tag: string, archive: Buffer, manifest: Record<string, unknown> = {}): Promise<string> {
  const { data } = await api.createRelease({
    body: {
      tag,
      artifact_sha256: hash("sha256", archive),
      artifact_size: archive.length,
      // The tests' engine provides neither a separate network nor a port.
      manifest: { host_network: true, stop_timeout_seconds: 1, ...manifest },
    },
  });
  const response = await api.request("PUT", `/api/releases/${data.id}/artifact`, {
    body: Uint8Array.from(archive),
    headers: { "content-type": "application/octet-stream" },
  });
  if (response.status !== 200) throw new Error(`the upload was answered ${response.status} ${await response.text()}`);
  await response.arrayBuffer();
  return data.id;
}

/** A real server and a real agent with a container engine. */
export class ContainerFleet implements AsyncDisposable {
  readonly api: Client;
  readonly robot: AgentProcess;
  readonly robot_id: string;
  readonly #server: ServerProcess;

  private constructor(server: ServerProcess, api: Client, robot: AgentProcess, robot_id: string) {
    this.#server = server;
    this.api = api;
    this.robot = robot;
    this.robot_id = robot_id;
  }

  static async start(engine: DockerEngine): Promise<ContainerFleet> {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await ServerProcess.start());
    const { api } = await server.org("Containers");
    const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
    const robot = stack.use(
      new AgentProcess({
        url: server.url,
        key: key ?? "",
        name: "cart",
        args: ["--container-socket", engine.socket, "--allow-host-network", "--allow-devices"],
      }),
    );
    const robot_id = await robot.program.until(
      "the robot to be online",
      async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
    );
    stack.move();
    return new ContainerFleet(server, api, robot, robot_id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.robot[Symbol.asyncDispose]();
    await this.#server[Symbol.asyncDispose]();
  }

  async start(release: string, verify_seconds = 2): Promise<string> {
    const body = { release, robot_id: this.robot_id, rollout: { verify_seconds } };
    return (await this.api.createDeployment({ body, idempotency_key: randomUUID() })).data.id;
  }

  /** Returns the only target of the deployment, once it has ended. */
  async ended(id: string) {
    await until(`the deployment ${id} to end`, async () => isTerminal((await this.api.getDeployment({ params: { id } })).data.status));
    const { items } = await this.api.listDeploymentTargets({ params: { id } });
    if (items[0] === undefined) throw new Error("the deployment has no target");
    return items[0];
  }

  deploy = async (release: string, verify_seconds?: number) => this.ended(await this.start(release, verify_seconds));

  /** Returns the latest records of the robot's log, including their fields. */
  async log(): Promise<string> {
    const { items } = await this.api.listRobotLogs({ params: { id: this.robot_id } });
    return JSON.stringify(items);
  }
}
