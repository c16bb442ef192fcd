import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipFaults } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test("the service recovers and loses nothing when NATS is killed and restarted", { skip: skipFaults(), timeout: 400_000 }, async (t) => {
  await using rig = await FaultRig.start();
  const { nats } = rig.services;
  const figures = await underFault(t, rig, { begin: () => nats.kill(), end: () => nats.restart(), until_end: true });
  provePromise(t, 16, `NATS of three nodes killed and started under load: ${figures}`);
});
