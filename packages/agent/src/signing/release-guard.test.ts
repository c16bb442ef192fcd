import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { SignedText, Trust } from "@roamfleet/protocol/signatures";
import { pino } from "pino";
import type { FetchAnswer, Fetcher } from "../contract.ts";
import { StepAborted, StepFailure } from "../runtime/failure.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { releaseOf } from "../testing/bundles.ts";
import { makeSigner, signed, type Signer, TEST_ORG, trusting } from "../testing/signing.ts";
import { afterRun, RAN_MAX } from "./admit-release.ts";
import { pinAtEnrollment, readTrust, trustKeys, writeTrust } from "./pinned-trust.ts";
import { ReleaseGuard } from "./release-guard.ts";

const [first, second, stranger] = [makeSigner("first"), makeSigner("second"), makeSigner("stranger")];
const trustIn = (serial: number, ...keys: Signer[]): Trust => ({
  serial,
  require_signature: true,
  keys: keys.map(({ name, public_key }) => ({ name, public_key })),
});
const one = releaseOf("v1", Buffer.from("bytes"));
const APP = { app: "main", current: null, previous: null };

/** Creates a guard whose server has these statements. `asked` lists the requested paths. */
function guardOf(t: TestContext, options: { trust?: Trust; statements?: SignedText[]; status?: number; server_time?: number } = {}) {
  const directory = temporaryDirectory(t);
  if (options.trust !== undefined) writeTrust(directory, options.trust);
  const asked: string[] = [];
  const clock = new SimulatedClock({ at: new Date().toISOString() });
  const fetcher: Fetcher = {
    get: async (path): Promise<FetchAnswer> => {
      asked.push(path);
      const body = Buffer.from(JSON.stringify({ items: options.statements ?? [] }));
      return {
        status: options.status ?? 200,
        headers: { get: () => null },
        body: (async function* () {
          yield body;
        })(),
      };
    },
  };
  const parts = {
    state_directory: directory,
    org_id: TEST_ORG,
    robot_id: "rob_1",
    labels: {},
    clock,
    fetcher,
    log: pino({ level: "silent" }),
  };
  const guard = new ReleaseGuard({ ...parts, server_time: () => options.server_time ?? 0 });
  const admit = (release = one.release, when: "now" | "lately" = "now", signal = new AbortController().signal) =>
    guard.admit(APP, release, { asked: when, signal }).then(
      () => "admitted",
      (error: unknown) => (error instanceof StepFailure ? `${error.reason} ${error.message.split(":")[0]}` : String(error)),
    );
  return { guard, admit, asked, directory, clock };
}

test("admits every release without requesting keys if signing is not used", async (t) => {
  const { admit, asked } = guardOf(t);
  assert.equal(await admit(), "admitted");
  assert.deepEqual(asked, []);
});

test("a robot without signing keys fetches the chain of key statements with the first signed release", async (t) => {
  const statements = [trusting(1, [first], first), trusting(2, [first, second], first), trusting(3, [second], second)];
  const { guard, admit, directory } = guardOf(t, { statements });
  assert.equal(await admit(signed(one, second, 1).release), "admitted");
  assert.deepEqual(guard.trust, trustIn(3, second));
  assert.deepEqual(readTrust(directory), trustIn(3, second));
  assert.equal(await admit(), "signature_invalid unsigned");
});

test("ignores key statements that no trusted key has signed", async (t) => {
  const statements = [trusting(4, [stranger], stranger), trusting(5, [second], first), trusting(6, [stranger], stranger)];
  const { guard, admit, asked } = guardOf(t, { trust: trustIn(3, first), statements });
  assert.equal(await admit(signed(one, first, 1).release), "signature_invalid unknown_key");
  assert.deepEqual(guard.trust, trustIn(5, second));
  assert.deepEqual(asked, ["/agent/signing?after=3"]);
});

test("reuses a recent query for signing keys and tolerates a failing server", async (t) => {
  const broken = guardOf(t, { trust: trustIn(1, first), status: 500 });
  assert.equal(await broken.admit(signed(one, first, 1).release), "admitted");
  const { admit, asked, clock } = guardOf(t, { trust: trustIn(1, first) });
  const { release } = signed(one, first, 1);
  for (const when of ["now", "lately", "lately"] as const) await admit(release, when);
  assert.equal(asked.length, 1);
  await clock.advance({ minutes: 2 });
  await admit(release, "lately");
  await admit(release);
  assert.equal(asked.length, 3);
});

test("a release signature expires by the latest time that the robot has seen", async (t) => {
  const { release } = signed(one, first, 1);
  const ahead = guardOf(t, { trust: trustIn(1, first), server_time: Date.now() + 3 * 86_400_000 });
  assert.equal(await ahead.admit(release), "signature_invalid expired");
  const { guard } = guardOf(t, { trust: trustIn(1, first) });
  const signed_later = { highest: 0, minimum: 0, latest_issued_at: new Date(Date.now() + 3 * 86_400_000).toISOString(), ran: [] };
  const admitted = guard.admit({ ...APP, signed: signed_later }, release, { asked: "now", signal: new AbortController().signal });
  await assert.rejects(admitted, /^Error: expired:/);
});

test("an aborted signature check neither admits nor rejects a release", async (t) => {
  const { admit } = guardOf(t, { trust: trustIn(1, first) });
  assert.equal(await admit(signed(one, first, 1).release, "now", AbortSignal.abort()), String(new StepAborted()));
});

test("a robot with a damaged key file trusts no signing key until new keys are set", async (t) => {
  const { directory } = guardOf(t, { trust: trustIn(7, first) });
  const path = join(directory, "identity", "signing.json");
  for (const damage of ["", "{}", readFileSync(path, "utf8").replace('"serial": 7', '"serial": 6')]) {
    writeFileSync(path, damage);
    let told = 0;
    assert.deepEqual(
      readTrust(directory, () => (told += 1)),
      { serial: 0, require_signature: true, keys: [] },
    );
    assert.equal(told, 1);
  }
  const pem = join(directory, "second.pem.pub");
  const { createPublicKey } = await import("node:crypto");
  writeFileSync(pem, createPublicKey(second.private_key).export({ type: "spki", format: "pem" }));
  trustKeys([pem], { state: directory }, () => {});
  assert.deepEqual(readTrust(directory)?.keys, [{ name: "second", public_key: second.public_key }]);
  writeFileSync(pem, "nothing");
  assert.throws(() => trustKeys([pem], { state: directory }, () => {}), /contains no Ed25519 key/);
});

test("enrollment pins the organization's signing keys only if the robot has none", (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, "identity"));
  pinAtEnrollment(directory, TEST_ORG, null);
  assert.equal(readTrust(directory), undefined);
  assert.throws(() => pinAtEnrollment(directory, "org_2", trusting(3, [first], first)), /unreadable signing keys/);
  pinAtEnrollment(directory, TEST_ORG, trusting(3, [first], first));
  pinAtEnrollment(directory, TEST_ORG, trusting(4, [stranger], stranger));
  assert.deepEqual(readTrust(directory), trustIn(3, first));
});

test("keeps the layer list of a release only if its signature names the image", async (t) => {
  const { guard } = guardOf(t, { trust: trustIn(1, first) });
  const layers = { config: { sha256: "c".repeat(64), size: 1 }, layers: [], repo_tags: ["other:latest"] };
  const admit = async (image_configs: string[] | null) => {
    const { release } = signed(one, first, 1, { image_configs });
    return (await guard.admit(APP, { ...release, layers }, { asked: "lately", signal: new AbortController().signal })).layers;
  };
  assert.equal(await admit(null), undefined);
  assert.deepEqual(await admit(["d".repeat(64), "c".repeat(64)]), { config: layers.config, layers: [] });
  await assert.rejects(admit(["d".repeat(64)]), /other_content: .* its archive contains another image/);
});

test("version numbers in the history of signed releases never decrease", () => {
  const { signature } = signed(one, first, 5).release;
  const statement = JSON.parse((signature as SignedText).text.split("\n")[1] ?? "");
  let history = afterRun(undefined, { ...statement, version: 9, minimum_version: 4 });
  for (let number = 0; number < RAN_MAX + 5; number += 1)
    history = afterRun(history, { ...statement, tag: `t${number}`, minimum_version: 1 });
  assert.deepEqual([history.highest, history.minimum, history.ran.length], [9, 4, RAN_MAX]);
  assert.deepEqual(afterRun(history, { ...statement, tag: "t68" }).ran.length, RAN_MAX);
});
