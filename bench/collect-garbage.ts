import { rmSync, writeFileSync } from "node:fs";
import { memoryFile } from "./memory-file.ts";

/**
 * Loaded before a program whose memory is measured, ours and the limit alike: on SIGUSR2 it collects garbage, releases pages and writes the
 * size of its objects and buffers.
 */
process.on("SIGUSR2", () => {
  for (let i = 0; i < 3; i += 1) globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
  const { heapUsed, external } = process.memoryUsage();
  writeFileSync(memoryFile(process.pid), String(heapUsed + external));
});
process.on("exit", () => rmSync(memoryFile(process.pid), { force: true }));
