// A bad release: it starts, then hangs without crashing, so that only its health check detects the failure.
/* oxlint-disable no-console -- what it prints is the log of the robot */
import { writeFileSync } from "node:fs";

const { ROAMFLEET_RELEASE } = process.env;

console.log(`started, release ${ROAMFLEET_RELEASE}: now with a new motor driver`);
const alive = setInterval(() => writeFileSync("alive", ""), 1_000);
writeFileSync("alive", "");
setTimeout(() => {
  clearInterval(alive);
  console.error("motor driver does not answer any more");
}, 2_000);
setInterval(() => console.error("waiting for the motor driver"), 3_000);
process.on("SIGTERM", () => process.exit(0));
