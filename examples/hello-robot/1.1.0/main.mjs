// A better release: reads its config at the start, and again on SIGHUP, which the agent sends after a change.
/* oxlint-disable no-console -- what it prints is the log of the robot */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { ROAMFLEET_CONFIG_DIR = ".", ROAMFLEET_RELEASE } = process.env;
let greeting = "hello";
let steps = 0;

function readConfig() {
  try {
    greeting = JSON.parse(readFileSync(join(ROAMFLEET_CONFIG_DIR, "default.json"), "utf8")).greeting ?? "hello";
    console.log(`config read, the greeting is "${greeting}"`);
  } catch {
    console.log("no config yet");
  }
}

console.log(`started, release ${ROAMFLEET_RELEASE}`);
readConfig();
process.on("SIGHUP", readConfig);
setInterval(() => console.log(`${greeting} from release ${ROAMFLEET_RELEASE}, ${(steps += 7)} steps walked`), 3_000);
setInterval(() => writeFileSync("alive", ""), 1_000);
writeFileSync("alive", "");
process.on("SIGTERM", () => process.exit(0));
