import type { Clock } from "@roamfleet/clock";
import { allProcesses, type ProcessEntry, readProcess } from "../../runtime/process-table.ts";

/** Time for programs to exit after the terminal has hung up. */
const EXIT_GRACE_MS = 500;
const POLL_MS = 20;
const KILL_WAIT_MS = 5_000;

/** A session of the kernel: the processes of a terminal, or those of a command without one. */
export interface Session {
  id: number;
  /** Start time of its leader: pids are reused. */
  start_time: number | undefined;
}

export const sessionOf = (leader: number): Session => ({ id: leader, start_time: readProcess(leader)?.start_time });

/** Returns its processes, except those that started a separate session, as daemons do. */
function membersOf({ id, start_time }: Session): ProcessEntry[] {
  const leader = readProcess(id);
  if (leader !== undefined && leader.start_time !== start_time) return [];
  return allProcesses().filter((entry) => entry.session === id);
}

/** Sends SIGHUP to all processes of a session, and kills those that do not exit. Resolves when none is left. */
export async function endSession(session: Session, clock: Clock): Promise<void> {
  // A stopped program receives SIGHUP once it is continued.
  for (const name of ["SIGHUP", "SIGCONT"] as const) signalAll(session, name);
  if (await isEmptyWithin(session, EXIT_GRACE_MS, clock)) return;
  signalAll(session, "SIGKILL");
  await isEmptyWithin(session, KILL_WAIT_MS, clock);
}

function signalAll(session: Session, name: NodeJS.Signals): void {
  for (const { pid } of membersOf(session)) {
    try {
      process.kill(pid, name);
    } catch {
      // Ended meanwhile, or another user's through sudo: the terminal's hang-up reaches it.
    }
  }
}

async function isEmptyWithin(session: Session, limit_ms: number, clock: Clock): Promise<boolean> {
  const deadline = clock.monotonic() + limit_ms;
  while (membersOf(session).length > 0) {
    if (clock.monotonic() >= deadline) return false;
    await clock.sleep(POLL_MS);
  }
  return true;
}
