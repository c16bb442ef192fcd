import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@robofleet/clock";
import { shellRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig } from "../testing/deployments-rig.ts";

const ROUNDS = 100;

test("a bundle with any byte flipped, cut or added is refused, and the old version runs on untouched", { timeout: 120_000 }, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const before = rig.processes("main");
  assert.equal(before.length, 1);
  const random = seededRandom(7);
  const next = await shellRelease("v2", WELL, {}, [
    { name: "data", content: Buffer.from(Array.from({ length: 20_000 }, () => Math.floor(random() * 256))) },
  ]);
  let served = next.bytes;
  rig.server.trouble = ({ start }) => ({ bytes: served.subarray(start) });
  const work = Array.from({ length: ROUNDS }, (_, round) => round);
  for (const round of work) {
    const at = Math.floor(random() * next.bytes.length);
    if (round % 3 === 0) {
      served = Buffer.from(next.bytes);
      served[at]! ^= 1 << Math.floor(random() * 8);
    } else if (round % 3 === 1) served = next.bytes.subarray(0, at);
    else served = Buffer.concat([next.bytes, Buffer.alloc(1 + at, round)]);
    const end = await rig.ended(rig.deploy(next, { target: `tgt_${round}` }));
    assert.equal(end.status, "failed", `round ${round}`);
    assert.ok(["digest_mismatch", "download_failed"].includes(end.reason ?? ""), `round ${round}: ${end.reason}`);
  }
  assert.deepEqual(rig.processes("main"), before);
  assert.equal(rig.current(), "rel_v1");
  // The same release with its own bytes is taken.
  served = next.bytes;
  assert.equal((await rig.ended(rig.deploy(next, { target: "tgt_good" }))).status, "applied");
});
