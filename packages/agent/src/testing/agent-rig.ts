import { ROBOT_CONFIG_DEFAULT } from "../config-file/robot-config.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Desired } from "@roamfleet/protocol/link";
import type { AgentConfig } from "../config.ts";
import type { CreateDeployments, DeploymentsOptions } from "../contract.ts";

export function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "rf-agent-"));
  // Remove the directory last, with retries, since an agent that still runs may write to it meanwhile.
  t.after(() => rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }));
  return directory;
}

export function agentConfig(server: string, state_directory: string, more: Partial<AgentConfig> = {}): AgentConfig {
  return {
    server,
    state_directory,
    enroll_key: "rf_enroll_test",
    labels: {},
    stop_workloads: true,
    allow_insecure_http: false,
    trust_on_first_use: false,
    log_level: "info",
    log_spool_bytes_max: 8 * 1024 * 1024,
    file_directories: [],
    mount_directories: [],
    tpm: "off",
    allow_devices: true,
    allow_host_network: true,
    container_sockets: [],
    // Do not search for ROS on the machine that runs the test.
    robot: { ...ROBOT_CONFIG_DEFAULT, ros: { adapters: [] } },
    workload_environment: {},
    system_root: "/",
    ...more,
  };
}

/** A robot that installs nothing, as in the swarm: it records the desired states that it receives, and lets a test send reports. */
export function idleDeployments(): { create: CreateDeployments; received: Desired[]; given: () => DeploymentsOptions } {
  const received: Desired[] = [];
  let given: DeploymentsOptions | undefined;
  return {
    received,
    given: () => given!,
    create: (options) => {
      given = options;
      return {
        kinds: ["app_bundle"],
        learn: () => {},
        apps: () => [],
        place: () => undefined,
        desired: (desired) => void received.push(desired),
        workloads: () => [{ app: "main", kind: "app_bundle", status: "running", restarts: 0, release_tag: "v1" }],
        announce: () =>
          options.reporter.report({ kind: "app", app: "main", release_id: null, previous_release_id: null, status: "stopped" }),
        start: async () => {},
        stop: async () => {},
      };
    },
  };
}
