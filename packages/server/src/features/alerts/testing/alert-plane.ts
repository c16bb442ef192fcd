import { sql } from "../../../kernel/sql.ts";
import { type Reply, startFeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { createCredential } from "../../tokens/index.ts";
import { alertRoutes, startAlerts } from "../index.ts";

/** Starts the routes of alerts with an org without rules, which is evaluated while the clock advances. */
export async function startAlertPlane() {
  const rig = await startFeaturePlane([alertRoutes]);
  const { plane, clock } = rig;
  const { org_id, token } = await rig.org({ role: "admin" });
  const { db } = plane;
  // The first evaluation of an org creates its default rules.
  await db.run(sql`insert into alert_evaluation (org_id, next_at) values (${org_id}, ${clock.now()})`);
  const loop = startAlerts(plane);
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the type of the response
  const call = async <T>(
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    body?: object,
    by = token,
  ): Promise<Reply<{ data: T; error: { message: string } }>> =>
    await rig.call(method, path, { token: by, ...(body === undefined ? {} : { body }) });
  return {
    rig,
    plane,
    clock,
    db,
    org_id,
    token,
    /** Sends a request, by default of an admin of the org. */
    call,
    items: async <T>(path: string, by = token) => (await rig.call<{ items: T[] }>("GET", path, { token: by })).body.items,
    /** Adds robots that are online, each at its own site. */
    robots: async (count: number) => {
      const robots = [];
      for (let i = 0; i < count; i += 1) robots.push(await seedRobot(plane, org_id));
      await db.run(sql`update robot set node_id = 'node_a', connected_at = ${clock.now()} where org_id = ${org_id}`);
      return robots;
    },
    setOnline: (robot_id: string, online: boolean) =>
      db.run(sql`update robot set node_id = ${online ? "node_a" : null} where org_id = ${org_id} and id = ${robot_id}`),
    /** Returns the secret of an operator's token that is limited to a site or fleet. */
    scoped: async (scope: { site_id?: string; fleet_id?: string }) =>
      (await createCredential(db, plane, { kind: "org", org_id, role: "operator", label: "scoped", scopes: [scope] })).secret,
    [Symbol.asyncDispose]: async () => {
      await loop.stop();
      await rig[Symbol.asyncDispose]();
    },
  };
}
