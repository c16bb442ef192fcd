import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import { shellRelease, WELL } from "../../packages/agent/src/testing/bundles.ts";
import { DeploymentsRig } from "../../packages/agent/src/testing/deployments-rig.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";

const ROUNDS = promiseSize({ test: 100, full: 1_000 });
const WAYS = ["flipped", "cut", "extended"] as const;

test("refuses a changed, truncated or extended bundle, and keeps the old version running", { timeout: 900_000 }, async (t) => {
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
  const refused = { flipped: 0, cut: 0, extended: 0 };
  for (const round of Array.from({ length: ROUNDS }, (_, index) => index)) {
    const at = Math.floor(random() * next.bytes.length);
    const way = WAYS[round % WAYS.length]!;
    if (way === "flipped") {
      served = Buffer.from(next.bytes);
      served[at]! ^= 1 << Math.floor(random() * 8);
    } else if (way === "cut") served = next.bytes.subarray(0, at);
    else served = Buffer.concat([next.bytes, Buffer.alloc(1 + at, round)]);
    const end = await rig.ended(rig.deploy(next, { target: `tgt_${round}` }));
    assert.equal(end.status, "failed", `round ${round}`);
    assert.ok(["digest_mismatch", "download_failed"].includes(end.reason ?? ""), `round ${round}: ${end.reason}`);
    refused[way] += 1;
  }
  assert.deepEqual(rig.processes("main"), before);
  assert.equal(rig.current(), "rel_v1");
  // The same release with its original bytes is accepted.
  served = next.bytes;
  assert.equal((await rig.ended(rig.deploy(next, { target: "tgt_good" }))).status, "applied");
  const { flipped, cut, extended } = refused;
  provePromise(
    t,
    11,
    `${ROUNDS} of ${ROUNDS} wrong bundles refused (${flipped} with a bit flipped, ${cut} cut, ${extended} extended); the old version's process ran on; the right one was taken`,
  );
});
