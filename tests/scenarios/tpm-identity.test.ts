import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { cpSync, rmSync } from "node:fs";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import { temporaryDirectory } from "../../packages/agent/src/testing/agent-rig.ts";
import { startSoftwareTpm, whyNoSoftwareTpm } from "../../packages/agent/src/testing/software-tpm.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 240_000, skip: whyNoSoftwareTpm() };

test(
  "a robot with its key in a TPM enrolls, gets a release and reconnects; a copy of its disk on another machine cannot connect",
  LIMIT,
  async (t) => {
    await using server = await ServerProcess.start();
    const { api } = await server.org("Sealed");
    const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
    assert.ok(key);
    const [own, other] = [await startSoftwareTpm(t, temporaryDirectory(t)), await startSoftwareTpm(t, temporaryDirectory(t))];
    const options = { url: server.url, key, name: "cart-1", args: ["--tpm", "required"] };
    await using robot = new AgentProcess({ ...options, env: own.environment });
    const online = async () => (await api.listRobots({ query: { status: "online" } })).items[0];
    const { id, public_key_type } = await until("the robot to be online", online);
    assert.equal(public_key_type, "ecdsa_p256");

    const release_id = await pushBundle(api, "v1", await appBundle("while :; do sleep 1; done"));
    const body = { release: release_id, robot_id: id, rollout: { verify_seconds: 1 } };
    const deployment = (await api.createDeployment({ body, idempotency_key: randomUUID() })).data.id;
    const ended = await until("the deployment to end", async () => {
      const { data } = await api.getDeployment({ params: { id: deployment } });
      return isTerminal(data.status) && data;
    });
    assert.equal(ended.status, "applied");

    await robot.program.stop();
    await own.restart();
    await using copy = new AgentProcess({ ...options, env: other.environment }, { start: false });
    rmSync(copy.state, { recursive: true });
    cpSync(robot.state, copy.state, { recursive: true });
    copy.restart();
    await until("the copy to state why it cannot connect", () => copy.program.output.includes("this key belongs to another TPM"));
    assert.equal((await api.getRobot({ params: { id } })).data.status, "offline");
    await copy.program.stop();

    robot.restart();
    await until("the robot to be back", online);
    const { items } = await api.listRobotTimeline({ params: { id }, query: { limit: 100 } });
    assert.deepEqual(
      items.filter(({ kind }) => kind === "robot.duplicate_identity"),
      [],
    );
  },
);
