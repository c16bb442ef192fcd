import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { atRest, residentBytes } from "./measure.ts";
import { memoryFile } from "./memory-file.ts";
import type { Program } from "./rig.ts";

const COLLECTIONS = 3;
const SETTLE_MS = 1_000;

export interface Settled {
  /** Resident memory of the process in bytes. */
  resident: number;
  /** Size of its objects and buffers in bytes. */
  objects: number;
}

/** Returns the memory of an idle process after garbage collection. The process must have been started with `collectable`. */
export async function settled({ pid }: Program): Promise<Settled> {
  for (let i = 0; i < COLLECTIONS; i += 1) {
    await atRest(pid);
    process.kill(pid, "SIGUSR2");
    await sleep(SETTLE_MS);
  }
  await atRest(pid);
  return { resident: residentBytes(pid), objects: Number(await readFile(memoryFile(pid), "utf8")) };
}
