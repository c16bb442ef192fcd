import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import { createClient } from "@roamfleet/sdk";
import metadata from "../../package.json" with { type: "json" };
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { whyNoPrograms } from "./base-image.ts";
import { buildPackages } from "./build-packages.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

/** Emulates the processor for one program, which runs on this machine's kernel. */
const EMULATOR = "qemu-aarch64-static";
/** Directory in which Debian installs the C and C++ libraries for arm64. */
const LIBRARIES = "/usr/aarch64-linux-gnu";
const { version } = metadata;
const ONLINE_MS_MAX = 120_000;
/** Number by which the header of an ELF file states that the file is for arm64. */
const EM_AARCH64 = 183;
/** Position of that number in the file, in bytes. */
const MACHINE_OFFSET = 18;

function whyNoArm64(): string | undefined {
  if (!MACHINES_FULL) return "builds the package: npm run test:machines";
  if (!fs.existsSync(path.join(LIBRARIES, "lib/libstdc++.so.6"))) return "not installed: libstdc++6-arm64-cross";
  return whyNoPrograms(EMULATOR, "dpkg-deb");
}

test("the agent of the arm64 package enrolls and runs an app", { timeout: 900_000, skip: whyNoArm64() }, async (t) => {
  const scratch = fs.mkdtempSync(path.join(tmpdir(), "roamfleet-arm64-"));
  t.after(() => fs.rmSync(scratch, { recursive: true, force: true }));
  buildPackages(path.join(scratch, "packages"), "--arch", "arm64", "--only", "agent");
  const deb = path.join(scratch, "packages", `roamfleet-agent_${version}_arm64.deb`);
  assert.equal(execFileSync("dpkg-deb", ["--field", deb, "Architecture"], { encoding: "utf8" }), "arm64\n");
  execFileSync("dpkg-deb", ["--extract", deb, path.join(scratch, "system")]);
  const agent = path.join(scratch, "system/opt/roamfleet/agent", version);
  const binaries = fs.globSync("**/*.node", { cwd: agent }).concat("bin/node");
  assert.ok(binaries.length > 1, "the package contains the compiled part of terminals");
  for (const file of binaries) assert.equal(fs.readFileSync(path.join(agent, file)).readUInt16LE(MACHINE_OFFSET), EM_AARCH64, file);

  await using server = await ServerProcess.start({ nodes: 1 });
  const { token } = await server.org("Arm");
  const api = createClient({ base_url: server.url, token });
  const site_id = (await api.createSite({ body: { name: "Site" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Fleet", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  const flags = ["--server", server.url, "--state", path.join(scratch, "state"), "--name", "arm", "--stop-workloads"];
  const command = ["-L", LIBRARIES, path.join(agent, "bin/node"), path.join(agent, "rf-agent.mjs"), "run", ...flags];
  const env = { PATH: process.env.PATH, ROAMFLEET_ENROLL_KEY: key ?? "" };
  const began = performance.now();
  const program = spawn(EMULATOR, command, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [program.stdout, program.stderr]) stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const ended = once(program, "close");
  const wait = { deadline_ms: ONLINE_MS_MAX, despite_errors: true, detail: () => output.slice(-2_000) };
  try {
    const robot = await until(
      "the robot to be online",
      async () => (await api.listRobots()).items.find(({ status }) => status === "online"),
      wait,
    );
    t.diagnostic(`online after ${Math.round(performance.now() - began)} ms`);
    assert.equal(robot.agent_version, version);
    const release = await pushBundle(api, "v1", await appBundle());
    const body = { release, robot_id: robot.id, rollout: { verify_seconds: 1 } };
    const { id } = (await api.createDeployment({ body, idempotency_key: randomUUID() })).data;
    const status = async () => {
      const { data } = await api.getDeployment({ params: { id } });
      return isTerminal(data.status) && data.status;
    };
    assert.equal(await until("the deployment to end", status, wait), "applied");
  } finally {
    program.kill("SIGTERM");
    await ended;
  }
  assert.equal(program.exitCode, 0, output.slice(-2_000));
});
