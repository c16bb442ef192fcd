import { tmpdir } from "node:os";
import path from "node:path";

/** The file in which a process that loaded collect-garbage.ts writes the size of its objects and buffers, in bytes. */
export const memoryFile = (pid: number): string => path.join(tmpdir(), `roamfleet-bench-memory-${pid}`);

/** The file in which a process that loaded event-loop.ts writes how long its event loop was blocked. */
export const delayFile = (pid: number): string => path.join(tmpdir(), `roamfleet-bench-delay-${pid}`);
