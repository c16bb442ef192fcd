import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Clock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { createLog, type RunningPlane, type Settings, startPlane as startServer } from "@roamfleet/server";
import { row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import type { Harness } from "./index.ts";
import { Proxy } from "./proxy.ts";

export type SecondNode = Pick<RunningPlane, "plane" | "url"> & AsyncDisposable;

/** Starts a second server on the database of the first, with a separate data directory and optionally other settings or clock. */
export async function secondNode(first: Harness, other: Partial<Settings> = {}, clock: Clock = systemClock): Promise<SecondNode> {
  const data_directory = await mkdtemp(path.join(tmpdir(), "roamfleet-second-"));
  const settings = { ...first.plane.settings, data_directory, listen: { host: "127.0.0.1", port: 0 }, ...other };
  const log = createLog({ level: "silent" });
  const node = await startServer({ settings, clock, log, database: first.database, check_rows: true });
  return {
    plane: node.plane,
    url: node.url,
    async [Symbol.asyncDispose]() {
      await node.stop();
      await rm(data_directory, { recursive: true, force: true });
    },
  };
}

/** Puts a proxy between a node and the nodes that connect to it. */
export async function lineTo({ db }: Harness, { plane }: Pick<RunningPlane, "plane">): Promise<Proxy> {
  const { address } = await db.one(sql(row({ address: text }))`select address from node where id = ${plane.node.id}`);
  const line = await Proxy.start(`http://${address}`);
  await db.run(sql`update node set address = ${`127.0.0.1:${line.port}`} where id = ${plane.node.id}`);
  return line;
}

export const connected = (first: Harness, second: Pick<RunningPlane, "plane">): Promise<true> =>
  until("both nodes to be on the bus", () => first.plane.bus.connected && second.plane.bus.connected);
