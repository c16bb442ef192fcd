import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { createClient } from "@roamfleet/sdk";
import { oneNodeOnly } from "../harness/nodes.ts";
import { runCommand, ServingData } from "../processes/server-command.ts";
import { ServerProcess } from "../processes/server-process.ts";

const REVOKE = ["--revoke-tokens", "--revoke-keys", "--revoke-approvals"];
const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the backup of an embedded database") };

/** Returns a public key as robots send it: the 32 raw bytes. */
const publicKey = (): string =>
  generateKeyPairSync("ed25519").publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64");

test("a restore with all --revoke flags revokes all tokens and enrollment keys of the backup", LIMIT, async () => {
  const place = mkdtempSync(path.join(tmpdir(), "roamfleet-revoked-"));
  try {
    await using server = await ServerProcess.start({ nodes: 1 });
    const { api, token } = await server.org("Acme");
    const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
    const { robot_id } = (await api.enrollRobot({ body: { key: key ?? "", public_key: publicKey() } })).data;
    assert.equal((await api.getRobot({ params: { id: robot_id } })).data.approval, "approved");
    const to = path.join(place, "backup");
    assert.equal((await runCommand(["backup", "--data", server.data, "--to", to])).code, 0);
    // The backup contains this robot.
    await api.deleteRobot({ params: { id: robot_id } });

    const data = path.join(place, "restored");
    const { code, output } = await runCommand(["restore", "--from", to, "--data", data, ...REVOKE]);
    assert.equal(code, 0, output);
    assert.match(output, /revoked 1 tokens\n[^]*revoked 1 enrollment keys\n1 robots need an admin's approval/);
    const admin = /new admin token of "Acme", not shown again: (rf_org_[0-9a-f]{64})/.exec(output)?.[1];
    assert.ok(admin !== undefined, output);

    await using restored = new ServingData(data);
    const url = await restored.url();
    const me = async (secret: string): Promise<number> =>
      (await fetch(`${url}/api/me`, { headers: { authorization: `Bearer ${secret}` } })).status;
    assert.deepEqual([await me(token), await me(admin)], [401, 200]);
    const again = createClient({ base_url: url, token: admin });
    const { approval, status } = (await again.getRobot({ params: { id: robot_id } })).data;
    assert.deepEqual([approval, status], ["pending", "never_connected"]);
    await again.approveRobot({ params: { id: robot_id } });
    assert.equal((await again.getRobot({ params: { id: robot_id } })).data.approval, "approved");
    // A refused enrollment alone does not prove that the key was revoked, because its creator no longer exists either.
    const keys = (await again.listEnrollmentKeys({})).items;
    assert.deepEqual(
      keys.map(({ status, revoked_at }) => [status, revoked_at !== null]),
      [["revoked", true]],
    );
    const body = JSON.stringify({ key, public_key: publicKey() });
    const enroll = await fetch(`${url}/agent/enroll`, { method: "POST", headers: { "content-type": "application/json" }, body });
    assert.equal(enroll.status, 403);
    assert.match(await enroll.text(), /revoked/);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
});
