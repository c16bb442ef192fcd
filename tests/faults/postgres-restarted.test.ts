import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test(
  "three nodes recover from a restart of PostgreSQL without losing an acknowledged write",
  { skip: skipUnlessFull(), timeout: 400_000 },
  async (t) => {
    await using rig = await FaultRig.start();
    const { postgres } = rig;
    const figures = await underFault(t, rig, { begin: () => postgres.down("SIGINT"), end: () => postgres.up(), until_end: true });
    provePromise(t, 22, `PostgreSQL of three nodes restarted under load: ${figures}`);
  },
);
