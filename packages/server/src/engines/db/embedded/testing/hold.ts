import { systemClock } from "@roamfleet/clock";
import { startEmbedded } from "../index.ts";
import { quietLog } from "./scratch.ts";

/** A server process for tests to kill: starts the database on argv[2] and prints one line of JSON. */
try {
  const embedded = await startEmbedded({
    directory: process.argv[2] ?? "",
    log: quietLog,
    clock: systemClock,
    parameters: { fsync: "off" },
  });
  process.once("SIGTERM", () => void embedded.stop().then(() => process.exit(0)));
  console.log(JSON.stringify({ pid: embedded.pid, adopted: embedded.adopted, connection: embedded.connection }));
  setInterval(() => {}, 1_000);
} catch (error) {
  console.log(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }));
  process.exit(1);
}
