import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { AgentProcess } from "../processes/agent-process.ts";
import { type Harness, type HarnessOptions, startPlane } from "../harness/index.ts";
import { Http } from "./http.ts";

/** Starts the whole plane that the tests of one file share, on the system's clock. */
export async function sharedPlane(options: HarnessOptions = {}): Promise<Harness> {
  const { limits, ...rest } = options;
  const plane = await startPlane({
    ...rest,
    limits: { health_seconds: 1, log_flush_ms: 50, unknown_requests_per_minute: 100_000, ...limits },
  });
  after(() => plane[Symbol.asyncDispose]());
  return plane;
}

export interface RealRobot {
  id: string;
  name: string;
  site_id: string;
  fleet_id: string;
  agent: AgentProcess;
}

/** Starts a real agent process as a connected robot of the default org, in a separate fleet. */
export async function realRobot(plane: Harness, name = "arm-1", args: readonly string[] = []): Promise<RealRobot> {
  const site_id = await plane.site();
  const fleet_id = await plane.fleet({ site_id });
  const agent = new AgentProcess({ url: plane.url, key: await plane.enrollmentKey({ fleet_id }), name, labels: { line: "3" }, args });
  after(() => agent[Symbol.asyncDispose]());
  const id = await agent.program.until("the robot to be online", async () => {
    const { items } = await plane.api.listRobots({ query: { fleet_id, status: "online" } });
    return items[0]?.id;
  });
  return { id, name, site_id, fleet_id, agent };
}

/** Writes a robot's config file; it is deleted after the tests. Returns its path. */
export function robotConfig(config: Record<string, unknown>): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-config-"));
  after(() => rmSync(directory, { recursive: true }));
  const file = path.join(directory, "agent.yaml");
  // JSON is valid YAML.
  writeFileSync(file, JSON.stringify(config));
  return file;
}

export const httpOf = (plane: Harness, token: string | undefined = plane.default_org.admin_token): Http => new Http(plane, token);
export const anonymous = (plane: Harness): Http => new Http(plane, undefined);
