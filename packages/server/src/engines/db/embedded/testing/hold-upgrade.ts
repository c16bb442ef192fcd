import { systemClock } from "@roamfleet/clock";
import { upgradeDatabase } from "../index.ts";
import { quietLog } from "./scratch.ts";

/** Upgrades the database argv[2]. When the old and the new database run, prints a line and waits forever, so that a test can kill it. */
let calls = 0;
setInterval(() => {}, 1_000);
await upgradeDatabase({
  directory: process.argv[2] ?? "",
  log: quietLog,
  clock: systemClock,
  parameters: { fsync: "off" },
  migrate: () => {
    calls += 1;
    if (calls === 1) return Promise.resolve();
    console.log("both run");
    return new Promise(() => {});
  },
});
