import { tmpdir } from "node:os";
import path from "node:path";

/** Where a process that was loaded with collect-garbage.ts writes what its objects and buffers take, in bytes. */
export const memoryFile = (pid: number): string => path.join(tmpdir(), `robofleet-bench-memory-${pid}`);
