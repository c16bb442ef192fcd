import type { Clock } from "@roamfleet/clock";
import { allProcesses, type ProcessEntry, readProcess } from "../../runtime/process-table.ts";

/** How long programs have to say goodbye after the terminal has hung up. */
const GOODBYE_MS = 500;
const POLL_MS = 20;
const KILL_WAIT_MS = 5_000;

/** A session of the kernel: a terminal's programs, or those of a command without one. */
export interface Session {
  id: number;
  /** Of its leader: a pid is used again. */
  start_time: number | undefined;
}

export const sessionOf = (leader: number): Session => ({ id: leader, start_time: readProcess(leader)?.start_time });

/** What runs in it; not what made itself a session of its own, as daemons do. */
function membersOf({ id, start_time }: Session): ProcessEntry[] {
  const leader = readProcess(id);
  if (leader !== undefined && leader.start_time !== start_time) return [];
  return allProcesses().filter((entry) => entry.session === id);
}

/** Hangs up on all that runs in a session, and kills what does not go. Resolves when nothing of it runs. */
export async function endSession(session: Session, clock: Clock): Promise<void> {
  // A stopped program hears of it when it goes on.
  for (const name of ["SIGHUP", "SIGCONT"] as const) signalAll(session, name);
  if (await isEmptyWithin(session, GOODBYE_MS, clock)) return;
  signalAll(session, "SIGKILL");
  await isEmptyWithin(session, KILL_WAIT_MS, clock);
}

function signalAll(session: Session, name: NodeJS.Signals): void {
  for (const { pid } of membersOf(session)) {
    try {
      process.kill(pid, name);
    } catch {
      // Gone meanwhile, or another user's by sudo: the hang-up of the terminal reaches it.
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
