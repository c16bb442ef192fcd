import { type RobotStep, stuckAt } from "@roamfleet/swarm/testing";
import type { Harness } from "../harness/index.ts";

/** Deploys a second release to a new robot that hangs at this step; returns the deployment's id. */
export async function deployUntilStuck(plane: Harness, step: RobotStep) {
  const robot = await plane.enrollRobot();
  const [before, release] = [await plane.release(), await plane.release()];
  await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  robot.behave(
    step === "rolling_back" ? { failure: { at: "verifying", reason: "crash_loop" }, stuck_at: step } : stuckAt(step),
    release.id,
  );
  const { id } = await plane.deploy(release, { robot_id: robot.id }, { rollout: { verify_seconds: 60 } });
  await plane.settle();
  return { robot, id };
}
