import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { test } from "node:test";
import type { SigningKeys } from "@roamfleet/protocol/routes";
import {
  keyIdOf,
  publicKeyOf,
  type ReleaseStatement,
  type SignedText,
  signRelease,
  signTrust,
  type TrustStatement,
} from "@roamfleet/protocol/signatures";
import { deploymentRoutes } from "../deployments/index.ts";
import { releaseRoutes } from "../releases/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { signingRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const NOW = "2030-01-01T00:00:00.000Z";

interface Key {
  name: string;
  public_key: string;
  private_key: KeyObject;
}
const makeKey = (name: string): Key => {
  const { privateKey } = generateKeyPairSync("ed25519");
  return { name, public_key: publicKeyOf(privateKey), private_key: privateKey };
};
const [first, second, stranger] = [makeKey("first"), makeKey("second"), makeKey("stranger")];

async function start() {
  const it = await startFeaturePlane([signingRoutes, releaseRoutes, deploymentRoutes]);
  const org = await it.org();
  const { org_id, token } = org;
  const say = (serial: number, keys: Key[], by: Key, more: Partial<TrustStatement> = {}): SignedText =>
    signTrust(
      {
        org_id,
        serial,
        require_signature: false,
        keys: keys.map(({ name, public_key }) => ({ name, public_key })),
        issued_at: NOW,
        ...more,
      },
      by.private_key,
    );
  type Answer = { data: SigningKeys; error: { code: string; message: string } };
  const change = async (statement: SignedText, more: object = {}, as = token) => {
    const { status, body } = await it.call<Answer>("POST", "/api/signing-keys", { token: as, body: { statement, ...more } });
    return { status, data: body.data, message: body.error?.message ?? "" };
  };
  const keys = async () => (await it.call<Answer>("GET", "/api/signing-keys", { token })).body.data;
  const release = { tag: "v1", app: "main", kind: "file", artifact_sha256: "a".repeat(64), artifact_size: 3 };
  const sign = (by: Key, more: Partial<ReleaseStatement> = {}): SignedText =>
    signRelease(
      {
        org_id,
        ...release,
        image: null,
        image_configs: null,
        manifest_sha256: null,
        version: 1,
        minimum_version: 0,
        issued_at: NOW,
        expires_at: "2030-02-01T00:00:00.000Z",
        robots: null,
        labels: null,
        ...more,
      },
      by.private_key,
    );
  const push = async (signature?: SignedText, more: object = {}) => {
    const { status, body } = await it.call<{ data: { id: string; signature: unknown }; error: { message: string } }>(
      "POST",
      "/api/releases",
      {
        token,
        body: { ...release, ...more, ...(signature === undefined ? {} : { signature }) },
      },
    );
    return { status, data: body.data, message: body.error?.message ?? "" };
  };
  return { it, org, say, change, keys, sign, push, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
}

test("signed statements add and revoke signing keys, which the list shows with their times", TIMEOUT, async () => {
  await using rig = await start();
  const { org_id } = rig.org;
  assert.deepEqual(await rig.keys(), { org_id, serial: 0, require_signature: false, keys: [], statements: [] });
  assert.equal((await rig.change(rig.say(1, [first], first))).status, 200);
  await rig.it.clock.advance({ hours: 1 });
  assert.equal((await rig.change(rig.say(2, [first, second], first, { require_signature: true }))).status, 200);
  await rig.it.clock.advance({ hours: 1 });
  const { data } = await rig.change(rig.say(3, [second], second, { require_signature: true }));
  const [one, two] = data.keys;
  assert.deepEqual(data, await rig.keys());
  assert.deepEqual([data.serial, data.require_signature], [3, true]);
  assert.deepEqual([one?.id, one?.added_at, one?.revoked_at], [keyIdOf(first.public_key), NOW, "2030-01-01T02:00:00.000Z"]);
  assert.deepEqual([two?.name, two?.added_at, two?.revoked_at], ["second", "2030-01-01T01:00:00.000Z", null]);
});

test("refuses a statement of signing keys with an untrusted signature or an old serial", TIMEOUT, async () => {
  await using rig = await start();
  const refused = async (statement: SignedText, status: number, why: RegExp) => {
    const answer = await rig.change(statement);
    assert.equal(answer.status, status, answer.message);
    assert.match(answer.message, why);
  };
  await refused(rig.say(1, [first], stranger), 400, /which is not trusted/);
  await refused(rig.say(1, [], first, { require_signature: true }), 400, /it requires signatures but contains no key/);
  await refused(rig.say(1, [first], first, { issued_at: "2030-01-03T00:00:00Z" }), 400, /more than a day ahead/);
  await refused(rig.say(1, [first], first, { org_id: "org_2" }), 400, /for the org org_2/);
  await refused({ ...rig.say(1, [first], first), value: "AAAA" }, 400, /by the key .* is invalid/);
  await refused(rig.sign(first), 400, /not a statement of signing keys/);
  await refused(rig.say(2, [first], first), 409, /are at 0/);
  assert.equal((await rig.change(rig.say(1, [first], first))).status, 200);
  await refused(rig.say(1, [second], first), 409, /are at 1/);
  await refused(rig.say(2, [stranger], stranger), 400, /which is not trusted/);
  const at_once = await Promise.all(
    [first, second, stranger].map((key) => rig.change(rig.say(2, [first, key].slice(key === first ? 1 : 0), first))),
  );
  assert.deepEqual(at_once.map(({ status }) => status).toSorted(), [200, 409, 409]);
});

test("an org that lost all signing keys can start over with an explicit flag", TIMEOUT, async () => {
  await using rig = await start();
  await rig.change(rig.say(1, [first], first, { require_signature: true }));
  assert.equal((await rig.change(rig.say(2, [second], second))).status, 400);
  assert.equal((await rig.change(rig.say(2, [second], stranger), { start_over: true })).status, 400);
  const { status, data } = await rig.change(rig.say(2, [second], second), { start_over: true });
  assert.deepEqual([status, data.keys.map(({ revoked_at }) => revoked_at === null)], [200, [false, true]]);
});

test("refuses a release with an invalid signature, and allows a valid signature to be replaced", TIMEOUT, async () => {
  await using rig = await start();
  assert.match((await rig.push(rig.sign(first))).message, /unknown_key/);
  await rig.change(rig.say(1, [first, second], first));
  for (const [more, why] of [
    [{ tag: "v2" }, /different content: tag \(other_content\)/],
    [{ artifact_size: 4 }, /different content: .*artifact_size/],
    [{ manifest_sha256: "b".repeat(64) }, /different content: .*manifest/],
    [{ app: "arm" }, /for the app arm, not main \(other_app\)/],
    [{ org_id: "org_2" }, /other_org/],
    [{ expires_at: NOW }, /expired at/],
    [{ issued_at: "2030-01-03T00:00:00.000Z" }, /more than a day ahead/],
  ] as [Partial<ReleaseStatement>, RegExp][]) {
    const { status, message } = await rig.push(rig.sign(first, more));
    assert.equal(status, 400);
    assert.match(message, why);
  }
  const made = await rig.push(rig.sign(first));
  assert.deepEqual([made.status, made.data.signature], [201, rig.sign(first)]);
  const again = await rig.push();
  assert.deepEqual([again.status, again.data.signature], [200, rig.sign(first)], "a push without a signature keeps the existing one");
  const renewed = rig.sign(second, { expires_at: "2031-01-01T00:00:00.000Z" });
  const signed = await rig.push(renewed);
  assert.deepEqual([signed.status, signed.data.id, signed.data.signature], [200, made.data.id, renewed]);
});

test("returns 409 for a deployment whose signature robots would refuse", TIMEOUT, async () => {
  await using rig = await start();
  const { token, org_id } = rig.org;
  const { robot_id } = await seedRobot(rig.it.plane, org_id);
  let number = 0;
  const deploy = async (release: string) => {
    const headers = { "idempotency-key": `deploy-${(number += 1)}` };
    const body = { release, robot_id };
    const answer = await rig.it.call("POST", "/api/deployments", { token, body, headers });
    return `${answer.status} ${answer.body.error?.message ?? ""}`;
  };
  await rig.push();
  assert.match(await deploy("v1"), /^201/);
  await rig.change(rig.say(1, [first, second], first, { require_signature: true }));
  assert.match(await deploy("v1"), /^409 release v1 is not signed \(unsigned\); the org's robots would refuse it/);
  await rig.push(rig.sign(first));
  assert.match(await deploy("v1"), /^201/);
  await rig.change(rig.say(2, [second], second, { require_signature: true }));
  assert.match(await deploy("v1"), /^409 .*which is not trusted \(unknown_key\)/);
  await rig.push(rig.sign(second));
  await rig.it.clock.advance({ days: 40 });
  assert.match(await deploy("v1"), /^409 .*expired at 2030-02-01/);
  // If no signature is required, a release without a signature is accepted, but a release with an invalid one is not.
  await rig.change(rig.say(3, [second], second));
  await rig.push(undefined, { tag: "v2" });
  assert.match(await deploy("v2"), /^201/);
  assert.match(await deploy("v1"), /^409/);
});
