import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { REASONS } from "@roamfleet/protocol";
import { type ReportBody, TARGET_STATUSES_REPORTED } from "@roamfleet/protocol/link/messages";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { cancelDeployment } from "../cancel/cancel.ts";
import { type RobotReport, takeReports } from "./report.ts";
import { type ReportRig, rowsOf, startReportRig } from "../testing/report-rig.ts";

const TIMEOUT = { timeout: 300_000 };
const ROBOTS = 4;
const RUNS = 12;

/** Builds a robot's report once the org is known. */
type MakeReport = (rig: ReportRig, robot: number) => ReportBody;

const attempt = fc.constantFrom(1, 1, 1, 1, 0, 2);
const reason = fc.constantFrom(...REASONS, "nonsense");
const LADDER = ["downloading", "staged", "installing", "verifying", "applied"] as const;

/** Mostly the reports of a normal deployment, mixed with any other reports that a robot may send. */
const step: fc.Arbitrary<MakeReport> = fc.oneof(
  fc.record({ status: fc.constantFrom(...TARGET_STATUSES_REPORTED), attempt, reason, deployment: fc.constantFrom(0, 0, 1, 2) }).map(
    ({ deployment, ...fields }): MakeReport =>
      (rig, robot) =>
        rig.about(robot, deployment, fields),
  ),
  // A report about another robot's target.
  fc.constantFrom(...TARGET_STATUSES_REPORTED).map(
    (status): MakeReport =>
      (rig, robot) =>
        rig.about((robot + 1) % ROBOTS, 0, { status, attempt: 1 }),
  ),
  // A report about a target of one deployment with the id of the other deployment.
  fc.constant<MakeReport>((rig, robot) => ({
    ...(rig.about(robot, 1, { status: "failed", attempt: 1 }) as Extract<ReportBody, { kind: "target" }>),
    deployment_id: rig.deployment_ids[0],
  })),
  fc.constantFrom(0, 1, 2).map(
    (version): MakeReport =>
      (rig) =>
        rig.file(version),
  ),
  fc.constantFrom("running", "failed").map((status): MakeReport => (rig) => ({
    kind: "app",
    app: "main",
    release_id: rig.release_id,
    previous_release_id: null,
    status,
  })),
  fc.constantFrom(0, 1, 5).map((generation): MakeReport => () => ({ kind: "observed", generation })),
);
const walk: fc.Arbitrary<MakeReport[]> = fc.nat({ max: LADDER.length }).map((length) =>
  LADDER.slice(0, length).map(
    (status): MakeReport =>
      (rig, robot) =>
        rig.about(robot, 0, { status, attempt: 1 }),
  ),
);
/** Each robot's reports; some are sent twice, as after a lost acknowledgment. */
const life = fc
  .tuple(walk, fc.array(step, { maxLength: 5 }), fc.array(fc.nat({ max: 9 }), { maxLength: 3 }))
  .map(([ladder, more, again]) => {
    const makers = more.reduce<MakeReport[]>((all, one, index) => all.toSpliced((index * 7) % (all.length + 1), 0, one), ladder);
    const numbered = makers.map((one, index) => ({ make: one, seq: index + 1 }));
    return again.reduce((all, at) => (all[at] === undefined ? all : all.toSpliced(at + 1, 0, all[at])), numbered);
  });

test("reports written in batches have the same result as reports written one by one", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  await fc.assert(
    fc.asyncProperty(
      fc.array(life, { minLength: ROBOTS, maxLength: ROBOTS }),
      fc.boolean(),
      fc.infiniteStream(fc.nat({ max: ROBOTS - 1 })),
      fc.infiniteStream(fc.integer({ min: 1, max: ROBOTS })),
      async (lives, cancelled, whose, sizes) => {
        const [alone, together] = [await startReportRig(it, ROBOTS), await startReportRig(it, ROBOTS)];
        for (const { org_id, deployment_ids, caller } of cancelled ? [alone, together] : [])
          await cancelDeployment(it.plane.db.forOrg(org_id), it.plane, org_id, deployment_ids[0], caller.actor);
        const reportsOf = (rig: ReportRig) =>
          lives.map((own, robot) => own.map(({ make, seq }) => rig.report(robot, seq, make(rig, robot))));
        const take = (rig: ReportRig, reports: RobotReport[]) => takeReports(it.plane.db.forOrg(rig.org_id), it.plane, rig.org_id, reports);
        for (const report of reportsOf(alone).flat()) await take(alone, [report]);
        for (const batch of batches(interleaved(reportsOf(together), whose), sizes)) await take(together, batch);
        assert.deepEqual(await rowsOf(it, together), await rowsOf(it, alone));
      },
    ),
    { numRuns: RUNS },
  );
});

function interleaved(lives: readonly (readonly RobotReport[])[], whose: Iterator<number>): RobotReport[] {
  const left = lives.map((own) => [...own]);
  const order: RobotReport[] = [];
  while (left.some((own) => own.length > 0)) {
    const own = left[whose.next().value as number];
    const next = own?.shift() ?? left.find(({ length }) => length > 0)?.shift();
    if (next !== undefined) order.push(next);
  }
  return order;
}

/** Splits reports into batches with at most one report per robot. */
function batches(reports: readonly RobotReport[], sizes: Iterator<number>): RobotReport[][] {
  const all: RobotReport[][] = [];
  let [batch, size] = [[] as RobotReport[], 0];
  for (const report of reports) {
    if (batch.length >= size || batch.some(({ robot_id }) => robot_id === report.robot_id)) {
      all.push((batch = []));
      size = sizes.next().value as number;
    }
    batch.push(report);
  }
  return all;
}
