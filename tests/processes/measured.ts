/** Loaded into a program before the program's own code. On SIGUSR2, it collects garbage and writes the program's resources to a file. */
import { readdirSync, renameSync, writeFileSync } from "node:fs";

const file = process.env["ROAMFLEET_TEST_MEASURES"];
if (file !== undefined && /\/(main\.ts|rf-agent\.mjs)$/.test(process.argv[1] ?? "")) {
  process.on("SIGUSR2", () => {
    gc?.();
    const { heapUsed, external, rss } = process.memoryUsage();
    const descriptors = readdirSync("/proc/self/fd").length;
    writeFileSync(`${file}.tmp`, JSON.stringify({ heap: heapUsed + external, rss, descriptors }));
    renameSync(`${file}.tmp`, file);
  });
}
