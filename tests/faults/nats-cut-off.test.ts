import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test(
  "a node that is disconnected from NATS serves its robots, and receives missed messages later",
  { skip: skipUnlessFull(), timeout: 400_000 },
  async (t) => {
    await using rig = await FaultRig.start();
    const { nats } = rig.network.addresses;
    const figures = await underFault(t, rig, { begin: ({ machine }) => machine.cut(nats), end: ({ machine }) => machine.heal(nats) });
    provePromise(t, 16, `one of three nodes cut off from NATS under load: ${figures}`);
  },
);
