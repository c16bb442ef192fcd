import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "@roamfleet/sdk";
import { startPlane } from "../harness/index.ts";

test("rejects a forged event cursor", { timeout: 120_000 }, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const list = (cursor?: string) =>
    plane.api.listDeploymentEvents({
      params: { id },
      query: { include: "targets", limit: 1, ...(cursor === undefined ? {} : { cursor }) },
    });
  const { next_cursor } = await list();
  const [bound] = JSON.parse(Buffer.from(next_cursor ?? "", "base64url").toString()) as [string, string];
  for (const key of ["abc", "1.5", "1e300"])
    await assert.rejects(
      list(Buffer.from(JSON.stringify([bound, key])).toString("base64url")),
      (error: unknown) => error instanceof ApiError && error.status === 400 && error.code === "bad_request",
    );
});
