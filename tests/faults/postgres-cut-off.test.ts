import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test("other nodes take over the robots of a node cut off from PostgreSQL", { skip: skipUnlessFull(), timeout: 400_000 }, async (t) => {
  await using rig = await FaultRig.start();
  const { postgres } = rig.network.addresses;
  const figures = await underFault(t, rig, { begin: ({ machine }) => machine.cut(postgres), end: ({ machine }) => machine.heal(postgres) });
  provePromise(t, 16, `one of three nodes cut off from PostgreSQL under load: ${figures}`);
});
