import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import {
  contentDigest,
  nextTrust,
  type ReleaseStatement,
  type SignatureCheck,
  type SignedText,
  type Trust,
} from "@roamfleet/protocol/signatures";
import { admitRelease, afterRun, type SignedHistory } from "../../packages/agent/src/signing/admit-release.ts";
import { writeTrust } from "../../packages/agent/src/signing/pinned-trust.ts";
import { shellRelease, type TestRelease, WELL } from "../../packages/agent/src/testing/bundles.ts";
import { DeploymentsRig } from "../../packages/agent/src/testing/deployments-rig.ts";
import { makeSigner, signed, type Signer, trusting } from "../../packages/agent/src/testing/signing.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { attacked, ATTACKS, DAY_MS, LABELS, makeHonest, type Offer, type Random, ROBOT, SIGNERS, TEST_ORG } from "./signed-offers.ts";

const OFFERS = promiseSize({ test: 5_000, full: 100_000 });
const OFFERS_OF_A_ROBOT = 40;
const LIMIT = { timeout: 900_000 };

/** The attacks that promise 12 names, with the checks that stop them. */
const KEPT_BY = {
  downgrade: ["downgrade", "withdrawn"],
  freeze: ["expired"],
  "other robot's": ["other_robot", "other_app", "other_org"],
  replay: ["other_content", "bad_signature", "malformed", "unsigned", "unknown_key"],
} as const satisfies Record<string, readonly SignatureCheck[]>;

/** A model of a robot. It decides by what the maker of the release intended, independently of the fields that the agent's code reads. */
class ModelRobot {
  trust: Trust | undefined;
  history: SignedHistory | undefined;
  current: DesiredRelease | null = null;
  previous: DesiredRelease | null = null;
  ran: ReleaseStatement[] = [];
  trusted: Signer[] = [];
  serial = 0;
  now_ms = Date.parse("2026-05-01T00:00:00Z");

  take(statement: SignedText): boolean {
    const taken = nextTrust(this.trust, TEST_ORG, statement);
    if ("trust" in taken) this.trust = taken.trust;
    return "trust" in taken;
  }

  /** Reports whether the robot must accept an offer by the rules of the guide. */
  may(offer: Offer): boolean {
    if (offer.meant === undefined) return false;
    const { signer, statement } = offer.meant;
    const { version, robots, labels } = statement;
    const highest = Math.max(0, ...this.ran.map((one) => one.version));
    const minimum = Math.max(0, ...this.ran.map((one) => one.minimum_version));
    const is_known = this.ran.some((one) => contentDigest(one) === contentDigest(statement));
    return (
      this.trusted.includes(signer) &&
      statement.org_id === TEST_ORG &&
      statement.app === offer.app &&
      Date.parse(statement.expires_at) > this.now_ms &&
      (robots === null || robots.includes(ROBOT)) &&
      (labels === null || labels["model"] === LABELS.model) &&
      version >= minimum &&
      (version > highest || is_known)
    );
  }
}

/** Changes the trusted keys by signed statements, and replays superseded statements, which have no effect. */
function changeKeys(random: Random, robot: ModelRobot, said: SignedText[]): number {
  const [by] = robot.trusted.length === 0 ? [SIGNERS.first] : robot.trusted;
  const next = random() < 0.5 ? [SIGNERS.first] : random() < 0.5 ? [SIGNERS.second] : [SIGNERS.first, SIGNERS.second];
  let refused = 0;
  const vain = [trusting(robot.serial + 1, [SIGNERS.stranger], SIGNERS.stranger), ...said];
  for (const gone of [SIGNERS.first, SIGNERS.second])
    if (robot.trusted.length > 0 && !robot.trusted.includes(gone)) vain.push(trusting(robot.serial + 9, [gone], gone, false));
  if (robot.trusted.length > 0)
    for (const statement of vain) {
      assert.equal(robot.take(statement), false);
      refused += 1;
    }
  const keys = robot.trusted.length === 0 && !next.includes(SIGNERS.first) ? [SIGNERS.first, ...next] : next;
  const statement = trusting(robot.serial + 1, keys, by!);
  assert.equal(robot.take(statement), true);
  robot.serial += 1;
  robot.trusted = keys;
  said.push(statement);
  return refused;
}

test("a robot refuses every downgraded, replayed, expired or foreign release of a hostile server", LIMIT, async (t) => {
  const random = seededRandom(12);
  const refused = new Map<SignatureCheck, number>();
  const attacks = new Map<string, number>();
  const counts = { offers: 0, taken: 0, refused: 0, statements: 0 };
  while (counts.offers < OFFERS) {
    const robot = new ModelRobot();
    const said: SignedText[] = [];
    counts.statements += changeKeys(random, robot, said);
    const past: Offer[] = [makeHonest(random, robot.now_ms, 0)];
    for (let number = 0; number < OFFERS_OF_A_ROBOT; number += 1) {
      if (random() < 0.05) counts.statements += changeKeys(random, robot, said);
      robot.now_ms += Math.floor(random() * 3 * DAY_MS);
      // Repeat some of the earlier offers.
      const honest = random() < 0.4 ? past[Math.floor(random() * past.length)]! : makeHonest(random, robot.now_ms, number);
      past.push(honest);
      const other = past[Math.floor(random() * past.length)]!;
      const offer = random() < 0.5 ? honest : attacked(random, honest, other, robot.current);
      judge(robot, offer, random, { refused, attacks, counts });
    }
  }
  for (const [word, checks] of Object.entries(KEPT_BY))
    assert.ok(
      checks.some((check) => (refused.get(check) ?? 0) > 0),
      `no ${word} was tried`,
    );
  for (const attack of Object.keys(ATTACKS)) assert.ok((attacks.get(attack) ?? 0) > 0, `${attack} was never tried`);
  const by_word = Object.entries(KEPT_BY).map(
    ([word, checks]) => `${word} ${checks.reduce((sum, check) => sum + (refused.get(check) ?? 0), 0)}`,
  );
  const events = await refuseForReal();
  provePromise(
    t,
    12,
    `${counts.offers} releases offered by a hostile server: all ${counts.refused} that were not meant for the robot refused (${by_word.join(", ")}), all ${counts.taken} that were taken; ${counts.statements} false changes of the keys refused; with the real agent ${events} of ${events} refused, each with an event that names the check`,
  );
});

interface Tally {
  refused: Map<SignatureCheck, number>;
  attacks: Map<string, number>;
  counts: { offers: number; taken: number; refused: number };
}

function judge(robot: ModelRobot, offer: Offer, random: Random, { refused, attacks, counts }: Tally): void {
  const { trust, history, current, previous, now_ms } = robot;
  const known = [current, previous].filter((one) => one !== null);
  const verdict = admitRelease({
    trust,
    history,
    org_id: TEST_ORG,
    robot_id: ROBOT,
    labels: LABELS,
    now_ms,
    app: offer.app,
    release: offer.release,
    known,
  });
  const wanted = robot.may(offer);
  const story = `${offer.attack}: ${JSON.stringify({ offer: offer.release, verdict })}`;
  counts.offers += 1;
  attacks.set(offer.attack, (attacks.get(offer.attack) ?? 0) + 1);
  assert.equal("release" in verdict, wanted, story);
  if ("refusal" in verdict) {
    counts.refused += 1;
    refused.set(verdict.refusal.check, (refused.get(verdict.refusal.check) ?? 0) + 1);
    assert.ok(verdict.refusal.message.includes(offer.release.tag), story);
    return;
  }
  counts.taken += 1;
  assert.equal(verdict.release.layers, undefined, story);
  // Some releases fail their health check. They are rolled back and do not count as having run.
  if (random() < 0.2) return;
  robot.history = afterRun(history, offer.meant!.statement);
  robot.ran.push(offer.meant!.statement);
  if (current?.id !== offer.release.id) robot.previous = current;
  robot.current = verdict.release;
}

/** Repeats the attacks on a real agent with a running program: the program stays unchanged, and each refusal is reported. */
async function refuseForReal(): Promise<number> {
  const [maker, stranger] = [makeSigner("maker"), makeSigner("stranger")];
  const keys = [{ name: maker.name, public_key: maker.public_key }];
  await using rig = await DeploymentsRig.start({
    guarded: { org_id: TEST_ORG, robot_id: ROBOT, labels: LABELS },
    before_boot: (state) => writeTrust(state, { serial: 1, require_signature: true, keys }),
  });
  const [v1, v2, v3, never] = await Promise.all(["v1", "v2", "v3", "never"].map((tag) => shellRelease(tag, `${WELL} # ${tag}`)));
  const good = signed(v2!, maker, 2);
  assert.equal((await rig.ended(rig.deploy(good))).status, "applied");
  const before = rig.processes("main");
  const changed = (one: TestRelease, change: Partial<DesiredRelease>): TestRelease => ({ ...one, release: { ...one.release, ...change } });
  const past = { issued_at: "2026-01-01T00:00:00Z", expires_at: "2026-01-02T00:00:00Z" };
  const next = signed(v3!, maker, 3);
  const offers: [SignatureCheck, TestRelease][] = [
    ["unsigned", v3!],
    ["downgrade", signed(v1!, maker, 1)],
    ["downgrade", signed(never!, maker, 2)],
    ["expired", signed(v3!, maker, 3, past)],
    ["other_robot", signed(v3!, maker, 3, { robots: ["rob_2"] })],
    ["other_robot", signed(v3!, maker, 3, { labels: { model: "arm" } })],
    ["other_org", signed(v3!, maker, 3, { org_id: "org_2" })],
    ["other_app", signed(v3!, maker, 3, { app: "arm" })],
    ["other_content", changed(next, { manifest: { health: null } })],
    ["other_content", changed(next, { artifact_sha256: v1!.release.artifact_sha256 })],
    ["other_content", changed(next, { tag: "v4" })],
    ["other_content", changed(next, { kind: "file" })],
    ["other_content", changed(next, { id: good.release.id })],
    ["other_content", changed(v3!, { signature: good.release.signature })],
    ["unknown_key", signed(v3!, stranger, 3)],
    ["bad_signature", changed(next, { signature: { ...(signed(v3!, stranger, 3).release.signature as SignedText), key_id: maker.id } })],
    ["malformed", changed(next, { signature: { key_id: maker.id, text: "{}", value: "" } })],
    // Desired state for the running release is refused too if it lacks the release's signature.
    ["unsigned", changed(good, { signature: null })],
  ];
  for (const [index, [check, one]] of offers.entries()) {
    const requests = rig.server.requests.length;
    const end = await rig.ended(rig.deploy(one, { target: `tgt_${index}` }));
    assert.deepEqual([end.status, end.reason, end.message?.split(":")[0]], ["failed", "signature_invalid", check], JSON.stringify(end));
    const fetched = rig.server.requests.slice(requests).filter(({ path }) => path.startsWith("/agent/artifacts/"));
    assert.deepEqual(fetched, [], "nothing of it was downloaded");
  }
  assert.deepEqual(rig.processes("main"), before);
  assert.equal((await rig.ended(rig.deploy(next))).status, "applied");
  // A rollback by the server, to a release that ran here before, is accepted.
  assert.equal((await rig.ended(rig.deploy(good, { target: "tgt_back" }))).status, "applied");
  return offers.length;
}
