import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipFaults } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test("robots and viewers of a killed node reconnect to the other nodes", { skip: skipFaults(), timeout: 400_000 }, async (t) => {
  await using rig = await FaultRig.start();
  const figures = await underFault(t, rig, { begin: (node) => node.program.kill(), end: (node) => node.up() });
  provePromise(t, 16, `one of three nodes killed under load: ${figures}`);
});
