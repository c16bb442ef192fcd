import { systemClock } from "@roamfleet/clock";
import { upgradeDatabase } from "../index.ts";
import { quietLog } from "./scratch.ts";

/** An upgrade of argv[2] for tests to kill: it prints a line and waits forever once the new database is running. */
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
