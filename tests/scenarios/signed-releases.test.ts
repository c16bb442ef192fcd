import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { isTerminal } from "@roamfleet/protocol";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle } from "../processes/app-bundle.ts";
import { RfHome, type RfResult } from "../processes/rf.ts";

/** The complete path with the real programs: `rf` creates keys and releases, with the real server and agent. */
const LIMIT = { timeout: 240_000 };

let plane: Harness;
let home: RfHome;
let robot: AgentProcess;
let robot_id = "";

const at = (name: string): string => path.join(home.directory, name);
const rf = (...args: string[]): Promise<RfResult> =>
  home.run(args, { env: { ROAMFLEET_TOKEN: plane.default_org.admin_token, ROAMFLEET_BASE_URL: plane.url } });

async function done(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await rf(...args);
  assert.equal(code, 0, `rf ${args.join(" ")}: ${stderr}`);
  return stdout;
}

async function push(tag: string, ...more: string[]): Promise<RfResult> {
  await writeFile(at(`${tag}.tar.gz`), await appBundle());
  return rf("releases", "push", at(`${tag}.tar.gz`), "--tag", tag, "--kind", "app_bundle", ...more);
}

const create = async (tag: string): Promise<string> =>
  (await plane.api.createDeployment({ body: { release: tag, robot_id, rollout: { verify_seconds: 1 } }, idempotency_key: randomUUID() }))
    .data.id;

/** Returns how a deployment ended on the robot: the status, and the reason and message of its last event. */
async function ended(id: string): Promise<string> {
  await plane.until(`deployment ${id} to end`, async () => isTerminal((await plane.deployment(id)).status));
  const { items } = await plane.api.listDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } });
  const last = items.findLast(({ target_status }) => target_status !== null && isTerminal(target_status));
  const said = last?.data["detail"];
  return [last?.kind, last?.reason, typeof said === "string" ? said.split(":")[0] : null].filter((part) => part != null).join(" ");
}

/** Deploys a release that is changed after the server accepted the deployment and before the robot receives it. */
async function deployedAfter(tag: string, change: () => Promise<unknown>): Promise<string> {
  await robot.program.stop();
  await plane.until("the robot to be away", async () => (await plane.api.getRobot({ params: { id: robot_id } })).data.status === "offline");
  const id = await create(tag);
  await change();
  robot.restart();
  return ended(id);
}

before(async () => {
  plane = await startPlane();
  home = await RfHome.make();
  await done("signing-keys", "new", at("first.pem"));
  await done("signing-keys", "new", at("second.pem"));
  await done("signing-keys", "add", at("first.pem.pub"), "--sign", at("first.pem"));
  await done("signing-keys", "require", "on", "--sign", at("first.pem"));
  // The robot pins the keys of its enrollment response.
  robot = new AgentProcess({ url: plane.url, key: await plane.enrollmentKey(), name: "cart-1", labels: { model: "amr" } });
  robot_id = await plane.until("the robot", async () => (await plane.api.listRobots({ query: { status: "online" } })).items[0]?.id);
}, LIMIT);

after(async () => {
  await robot?.[Symbol.asyncDispose]();
  await home?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
}, LIMIT);

test("a release that rf signs while pushing is applied, and shown with its signer", LIMIT, async () => {
  assert.equal((await push("v10", "--sign", at("first.pem"), "--release-version", "10")).code, 0);
  assert.match(await done("releases", "show", "v10"), /Signed\s+by key [0-9a-f]{32}, version 10, expires in 36\d d/);
  assert.equal(await ended(await create("v10")), "target.applied");
});

test("refuses to create or deploy a release without a valid signature", LIMIT, async () => {
  assert.equal((await push("plain")).code, 0);
  await assert.rejects(create("plain"), /release plain is not signed \(unsigned\)/);
  assert.match((await push("foreign", "--sign", at("second.pem"))).stderr, /which is not trusted \(unknown_key\)/);
  assert.match((await push("half", "--signature-days", "3")).stderr, /--signature-days needs --sign <key>/);
  assert.match((await push("odd", "--sign", at("first.pem.pub"))).stderr, /does not contain a private key in PEM format/);
  assert.match((await rf("signing-keys", "new", at("first.pem"))).stderr, /already exists/);
});

test("the robot refuses a release changed on the server, and its event names the failed check", LIMIT, async () => {
  assert.equal((await push("v20", "--sign", at("first.pem"), "--release-version", "20")).code, 0);
  const set = (change: ReturnType<typeof sql>) =>
    plane.db.run(sql`update release set ${change} where org_id = ${plane.default_org.id} and tag = 'v20'`);
  const { signature } = (await plane.api.listReleases({ query: { tag: "v20" } })).items[0]!;
  const signature_back = (text: unknown) => sql`signature = ${JSON.stringify(text)}::jsonb`;
  assert.equal(await deployedAfter("v20", () => set(sql`signature = null`)), "target.failed signature_invalid unsigned");
  await set(signature_back(signature));
  assert.equal(
    await deployedAfter("v20", () => set(sql`manifest = '{"start": ["evil"]}'`)),
    "target.failed signature_invalid other_content",
  );
  await set(sql`manifest = null`);
  assert.equal((await push("v9", "--sign", at("first.pem"), "--release-version", "9")).code, 0);
  assert.equal(await ended(await create("v9")), "target.failed signature_invalid downgrade");
  assert.equal((await push("arm", "--sign", at("first.pem"), "--for-label", "model=arm")).code, 0);
  assert.equal(await ended(await create("arm")), "target.failed signature_invalid other_robot");
  assert.equal(await ended(await create("v20")), "target.applied");
  // A rollback to a release that ran here needs no signature check.
  assert.equal(await ended(await create("v10")), "target.applied");
});

test("a robot learns of an added or revoked signing key before it installs a release", LIMIT, async () => {
  await done("signing-keys", "add", at("second.pem.pub"), "--sign", at("first.pem"), "--name", "Second");
  assert.equal((await push("v30", "--sign", at("second.pem"), "--release-version", "30")).code, 0);
  assert.equal(await ended(await create("v30")), "target.applied");
  assert.equal((await push("v40", "--sign", at("first.pem"), "--release-version", "40")).code, 0);
  const { keys } = (await plane.api.getSigningKeys()).data;
  const first = keys.find(({ name }) => name === "first")!;
  // The key of v40 is revoked after the deployment is accepted and before the robot receives it. The second key has never changed the list
  // of keys, so rf needs --known to trust its changes.
  assert.match((await rf("signing-keys", "revoke", first.id, "--sign", at("second.pem"))).stderr, new RegExp(`${first.id} first`));
  const revoke = () => done("signing-keys", "revoke", first.id, "--sign", at("second.pem"), "--known", first.id);
  assert.equal(await deployedAfter("v40", revoke), "target.failed signature_invalid unknown_key");
  await assert.rejects(create("v40"), /not trusted/);
  assert.match((await rf("signing-keys", "require", "off", "--sign", at("first.pem"))).stderr, /which is not trusted/);
  // The same release is accepted after being signed again.
  assert.match(await done("signing-keys", "list"), /revoked/);
  assert.equal(
    (await rf("releases", "push", at("v40.tar.gz"), "--tag", "v40", "--kind", "app_bundle", "--sign", at("second.pem"))).code,
    0,
  );
  assert.equal(await ended(await create("v40")), "target.applied");
});

test("a robot keeps its pinned signing keys if the server deletes or replaces its own list", LIMIT, async () => {
  const org_id = plane.default_org.id;
  const before = (await plane.api.getSigningKeys()).data.serial;
  await plane.db.run(sql`delete from signing_trust where org_id = ${org_id}`);
  assert.equal(await ended(await create("plain")), "target.failed signature_invalid unsigned");
  await done("signing-keys", "new", at("evil.pem"));
  const fooled = await rf("signing-keys", "add", at("evil.pem.pub"), "--sign", at("evil.pem"));
  assert.equal(fooled.code, 1);
  assert.match(fooled.stderr, /nothing was signed/);
  // An attacker who controls the server uses another machine, which has no stored serial.
  await rm(at("roamfleet/signing-keys.toml"));
  for (let serial = 0; serial <= before + 1; serial += 1)
    await done("signing-keys", serial === 0 ? "add" : "require", serial === 0 ? at("evil.pem.pub") : "off", "--sign", at("evil.pem"));
  assert.equal((await push("evil", "--sign", at("evil.pem"))).code, 0);
  assert.equal(await ended(await create("evil")), "target.failed signature_invalid unknown_key");
  assert.equal(await ended(await create("plain")), "target.failed signature_invalid unsigned");
});

test("a user with local access to a robot can replace its signing keys", LIMIT, async () => {
  const trust = (): Promise<RfResult> => agent("trust-key", at("evil.pem.pub"), "--state", robot.state);
  assert.match((await trust()).stderr, /is in use|runs|another/i);
  await robot.program.stop();
  const { code, stdout } = await trust();
  assert.equal(code, 0);
  assert.match(stdout, /^this robot trusts releases signed by evil \([0-9a-f]{32}\), and no others\n$/);
  robot.restart();
  assert.equal(await ended(await create("evil")), "target.applied");
});

async function agent(...args: string[]): Promise<RfResult> {
  const { spawnSync } = await import("node:child_process");
  const { status, stdout, stderr } = spawnSync(process.execPath, ["packages/agent/src/main.ts", ...args], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return { code: status, stdout, stderr };
}
