import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { root } from "../bin/launch.mjs";
import { ensureBuilt, NotBuilt } from "../packages/server/src/features/dashboard/build.ts";

/** `npm run build`: the dashboard as `roamfleet serve` would build it, for machines where the server may not write into the clone. */

try {
  process.stdout.write(`${await ensureBuilt({ clone: root, clock: systemClock, log: createLog({ level: "info" }) })}\n`);
} catch (error) {
  if (!(error instanceof NotBuilt)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
