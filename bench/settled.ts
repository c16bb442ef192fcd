import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { atRest, residentBytes } from "./measure.ts";
import { memoryFile } from "./memory-file.ts";
import type { Program } from "./rig.ts";

const COLLECTIONS = 3;
const SETTLE_MS = 1_000;

export interface Settled {
  /** Bytes that the process has in memory. */
  resident: number;
  /** Bytes of its objects and buffers. */
  objects: number;
}

/** What is left when a process has nothing to do and no garbage. It was started `collectable`. */
export async function settled({ pid }: Program): Promise<Settled> {
  for (let i = 0; i < COLLECTIONS; i += 1) {
    await atRest(pid);
    process.kill(pid, "SIGUSR2");
    await sleep(SETTLE_MS);
  }
  await atRest(pid);
  return { resident: residentBytes(pid), objects: Number(await readFile(memoryFile(pid), "utf8")) };
}
