import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { root } from "../bin/launch.mjs";
import { ensureBuilt, NotBuilt } from "../packages/server/src/features/dashboard/build.ts";

/** `npm run build`: builds the dashboard as `roamfleet serve` does, for machines where the server cannot write to the clone. */

try {
  process.stdout.write(`${await ensureBuilt({ clone: root, clock: systemClock, log: createLog({ level: "info" }) })}\n`);
} catch (error) {
  if (!(error instanceof NotBuilt)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
