import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test(
  "PostgreSQL of three nodes is restarted: all nodes recover, and nothing is lost",
  { skip: skipUnlessFull(), timeout: 400_000 },
  async (t) => {
    await using rig = await FaultRig.start();
    const { postgres } = rig;
    const figures = await underFault(t, rig, { begin: () => postgres.down("SIGINT"), end: () => postgres.up(), until_end: true });
    provePromise(t, 22, `PostgreSQL of three nodes restarted under load: ${figures}`);
  },
);
