import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

test(
  "a failover of PostgreSQL to its synchronous standby loses no acknowledged write",
  { skip: skipUnlessFull(), timeout: 400_000 },
  async (t) => {
    await using rig = await FaultRig.start({ standby: true });
    const begin = async (): Promise<void> => {
      await rig.postgres.down("SIGQUIT");
      await rig.standby?.promote();
      rig.failOver();
    };
    const figures = await underFault(t, rig, { begin });
    provePromise(t, 22, `PostgreSQL of three nodes failed over to its standby under load: ${figures}`);
  },
);
