import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { Recorder } from "./recorder.ts";
import { insertSession } from "./store.ts";

test("writes shell output that arrived during a slow write soon after that write ends", { timeout: 240_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { db, node } = it.plane;
  const { org_id } = await it.org({ role: "admin" });
  const { robot_id } = await seedRobot(it.plane, org_id);
  const session_id = "shell_1";
  const actor = { type: "org_token", id: "tok_1", name: "ci" } as const;
  const opened = {
    org_id,
    robot_id,
    id: session_id,
    request_id: "req_1",
    actor,
    ip: "192.0.2.1",
    app: null,
    command: null,
    terminal: true,
  };
  await insertSession(db, { ...opened, started_at: it.clock.now() }, node);
  // A separate clock, so that advancing it does not wait for the slow query.
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const recorder = new Recorder({ plane: { ...it.plane, clock }, org_id, session_id, header: {}, onFailure: () => {} });
  const written = (): Promise<number> => db.run(sql`select from shell_recording where session_id = ${session_id}`);
  const [locked, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slow = db.transaction(async (tx) => {
    await tx.run(sql`select from shell_session where id = ${session_id} for update`);
    locked.resolve();
    await free.promise;
  });
  await locked.promise;
  await clock.advance({ milliseconds: 500 });
  await until("the write to wait", async () => (await db.run(sql`select from pg_locks where not granted`)) > 0);
  await recorder.output(Buffer.from("little"));
  await clock.advance({ milliseconds: 500 });
  free.resolve();
  await slow;
  await until("the header", async () => (await written()) === 1);
  await until("the second write", async () => (await written()) === 2, { meanwhile: () => clock.advance({ milliseconds: 500 }) });
});
