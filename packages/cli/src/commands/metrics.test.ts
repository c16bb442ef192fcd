import assert from "node:assert/strict";
import { test } from "node:test";
import { RfHome } from "../testing/run-rf.ts";
import { type Asked, ScriptedPeer } from "../testing/scripted-peer.ts";

const values = [100, 160, 280, 300];
const series = (name: string, labels: Record<string, string> = {}) => ({ name, labels, mean: values, min: values, max: values });
const STORED = [series("plan_seconds_bucket", { le: "0.5" }), series("plan_seconds_count"), series("queue_count")];

/** Answers like the server, with the series that the request names. */
function answer({ line }: Asked) {
  const names = new URL(line.split(" ")[1] ?? "", "http://rf.test").searchParams.get("names")?.split(",");
  const found = STORED.filter(({ name }) => names === undefined || names.includes(name));
  const period = { since: "2030-01-01T00:00:00Z", until: "2030-01-01T00:04:00Z", step_seconds: 60 };
  return { body: { data: { robot_id: "rob_1", ...period, series: found, omitted_series: 0 } } };
}

test("rf metrics shows the count of a histogram as a rate, even if its buckets are not requested", { timeout: 120_000 }, async () => {
  await using home = await RfHome.make();
  await using peer = await ScriptedPeer.start(answer);
  for (const names of [[], ["plan_seconds_count", "queue_count"]]) {
    const { code, stdout, stderr } = await home.run(["metrics", "rob_1", ...names], { env: peer.env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^plan_seconds_count +2\/s +1\/s +2\/s /m);
    assert.match(stdout, /^queue_count +300 +100 +300 /m);
    assert.equal(/^plan_seconds_bucket/m.test(stdout), names.length === 0);
  }
});
