import { rmSync, writeFileSync } from "node:fs";
import { memoryFile } from "./memory-file.ts";

/**
 * Preloaded into a program whose memory is measured. On SIGUSR2, it collects garbage, releases pages and writes the size of the program's
 * objects and buffers to a file.
 */
process.on("SIGUSR2", () => {
  for (let i = 0; i < 3; i += 1) globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
  const { heapUsed, external } = process.memoryUsage();
  writeFileSync(memoryFile(process.pid), String(heapUsed + external));
});
process.on("exit", () => rmSync(memoryFile(process.pid), { force: true }));
