// The first release: prints a greeting every three seconds, and touches `alive` every second, which the agent checks as its health.
/* oxlint-disable no-console -- what it prints is the log of the robot */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { ROAMFLEET_CONFIG_DIR = ".", ROAMFLEET_RELEASE } = process.env;

function greeting() {
  try {
    return JSON.parse(readFileSync(join(ROAMFLEET_CONFIG_DIR, "default.json"), "utf8")).greeting ?? "hello";
  } catch {
    return "hello"; // no config yet
  }
}

console.log(`started, release ${ROAMFLEET_RELEASE}`);
setInterval(() => console.log(`${greeting()} from release ${ROAMFLEET_RELEASE}`), 3_000);
setInterval(() => writeFileSync("alive", ""), 1_000);
writeFileSync("alive", "");
process.on("SIGTERM", () => process.exit(0));
