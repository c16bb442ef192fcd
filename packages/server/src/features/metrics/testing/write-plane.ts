import { encodeChunk, type Series } from "@roamfleet/protocol/link";
import { until } from "@roamfleet/clock/testing";
import type { MetricEndpoints } from "../../../metric-endpoints.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { metricRoutes, startRemoteWrite, storeSamples } from "../index.ts";
import { readBacklog } from "../remote-write/store.ts";

/** Starts a plane that sends stored samples to `write`. */
export async function startWritePlane(metric_endpoints: Partial<MetricEndpoints>) {
  const services = { write: undefined, read: undefined, ...metric_endpoints };
  const rig = await startFeaturePlane([metricRoutes], { settings: { metric_endpoints: services } });
  const { plane, clock } = rig;
  const numbers = new Map<string, number>();
  const loops: { stop(): Promise<void> }[] = [];
  const stop = async (): Promise<void> => {
    for (const loop of loops.splice(0)) await loop.stop();
  };
  return {
    ...rig,
    /** Starts sending, as one more node. */
    start: () => void loops.push(...startRemoteWrite(plane)),
    stop,
    robot: async (org_id: string) => (await seedRobot(plane, org_id)).robot_id,
    /** Stores a chunk of a robot as if it came over its link. */
    async store(org_id: string, robot_id: string, series: Series[]): Promise<void> {
      const seq = (numbers.get(robot_id) ?? 0) + 1;
      numbers.set(robot_id, seq);
      await storeSamples(plane, org_id, robot_id, { outbox_id: "spool-1", seq, chunk: encodeChunk(series) });
    },
    backlog: async () => (await readBacklog(plane.db)).chunks,
    /** Advances the clock until every chunk is sent. Requests end in real time. */
    sent: () =>
      until("all chunks to be sent", async () => (await readBacklog(plane.db)).chunks === 0, {
        meanwhile: () => clock.advance({ seconds: 5 }),
      }),
    counter: async (name: string): Promise<number> =>
      Number(new RegExp(`^roamfleet_remote_write_${name} (.+)$`, "m").exec(await plane.metrics.registry.metrics())?.[1]),
    async [Symbol.asyncDispose]() {
      await stop();
      await rig[Symbol.asyncDispose]();
    },
  };
}
