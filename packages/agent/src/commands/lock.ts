import type { ChildProcess } from "node:child_process";
import { constants } from "node:os";
import type { Clock } from "@roamfleet/clock";
import { isChanging } from "../deployments/app-status.ts";
import { Journal } from "../deployments/journal.ts";
import type { AppState } from "../deployments/state.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { AgentAbsent, AgentRefused, askAgent } from "../local/client.ts";
import { statePaths } from "../runtime/paths.ts";
import { spawnChild } from "../runtime/spawn-child.ts";
import { type HeldLock, LockBusy, LockHeld, type LockRequest, thisMachine, UpdateLock } from "../safety/update-lock.ts";

/**
 * Where a local command finds the update lock: at the agent's socket or, while no agent runs, in a file of the state directory.
 * `state_directory` is undefined if it is unknown.
 */
interface LockPlace {
  socket: string;
  state_directory: string | undefined;
  clock: Clock;
  say: (line: string) => void;
}

const RETRY_MS = 1_000;
const BUSY_TRIES = 100;
const BUSY_RETRY_MS = 20;

/** Takes or renews the lock through the agent, or in its lock file when no agent runs. Throws AgentRefused, LockHeld. */
async function take(place: LockPlace, request: LockRequest): Promise<HeldLock> {
  try {
    return (await askAgent<{ lock: HeldLock }>(place.socket, "PUT", "/v1/lock", request)).lock;
  } catch (error) {
    const { state_directory } = place;
    // Use the lock file only if no agent runs and the state directory is known. A running agent that does not answer may be in the middle
    // of an update. A lock file in another directory would have no effect.
    if (!(error instanceof AgentAbsent) || state_directory === undefined) throw error;
    place.say(`${error.message}: the lock takes effect when the agent starts`);
    makeDirectory(state_directory);
    return whileBusy(place, () => {
      const lock = lockFile(place, state_directory);
      if (lock.held?.owner !== request.owner) refuseWhileChanging(state_directory);
      return lock.take(request);
    });
  }
}

/**
 * Throws if the agent was stopped in the middle of a change: it continues that change at its next start, so the lock must not be taken.
 * Throws the same error as a running agent.
 */
function refuseWhileChanging(state_directory: string): void {
  for (const { app, work } of Journal.read<AppState>(statePaths(state_directory).journal, (state) => state.app).values())
    if (work !== null && isChanging(work))
      throw new AgentRefused(409, "update_in_progress", `app ${app} is being changed (${work.phase.replace("_", " ")})`);
}

const lockFile = ({ clock }: LockPlace, state_directory: string): UpdateLock =>
  new UpdateLock({ state_directory, clock, machine: thisMachine("/") });

async function whileBusy<T>({ clock }: LockPlace, work: () => T): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof LockBusy) || tries === BUSY_TRIES) throw error;
      await clock.sleep(BUSY_RETRY_MS);
    }
  }
}

const isRefusedLock = (error: unknown): boolean =>
  error instanceof LockHeld || (error instanceof AgentRefused && (error.code === "locked" || error.code === "update_in_progress"));

/** Takes or renews the lock. While another owner has it or a change is in progress, retries each second for up to `wait_ms`. */
export async function takeLock(place: LockPlace, request: LockRequest, wait_ms: number): Promise<HeldLock> {
  const give_up_at = place.clock.monotonic() + wait_ms;
  let said: string | undefined;
  for (;;) {
    try {
      return await take(place, request);
    } catch (error) {
      if (!isRefusedLock(error) || place.clock.monotonic() >= give_up_at) throw error;
      const why = (error as Error).message.replace(/ for another \d+ s$/, "");
      if (why !== said) place.say(`waiting: ${why}`);
      said = why;
      await place.clock.sleep(RETRY_MS);
    }
  }
}

/**
 * Releases the lock of the given owner, or with `owner` undefined that of any owner. Returns whether there was a lock. Throws AgentRefused,
 * LockHeld.
 */
export async function releaseLock(place: LockPlace, owner: string | undefined): Promise<boolean> {
  const query = owner === undefined ? "force=true" : `owner=${encodeURIComponent(owner)}`;
  try {
    return (await askAgent<{ released: boolean }>(place.socket, "DELETE", `/v1/lock?${query}`)).released;
  } catch (error) {
    const { state_directory } = place;
    if (!(error instanceof AgentAbsent) || state_directory === undefined) throw error;
    return whileBusy(place, () => lockFile(place, state_directory).release(owner) !== undefined);
  }
}

/**
 * Takes the update lock, runs a command, and releases the lock afterwards. Renews the lock while the command runs. The lock is bound to the
 * command's process, so it stays valid if only rf-agent is killed. Returns the command's exit code, or 128 plus the number of the signal
 * that ended it.
 */
export async function runLocked(place: LockPlace, request: LockRequest, wait_ms: number, command: readonly string[]): Promise<number> {
  const { owner, ttl_seconds } = request;
  const { clock, say } = place;
  await takeLock(place, { ...request, pid: process.pid }, wait_ms);
  const [program, ...args] = command as [string, ...string[]];
  const child = spawnChild(program, args, { stdio: "inherit" });
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, forward);
  const ended = endOf(child);
  // The promise is awaited below: this handler prevents an unhandled rejection if the program cannot be started.
  ended.catch(() => {});
  const renew = async (): Promise<void> => {
    try {
      await take({ ...place, say: () => {} }, { owner, ttl_seconds, ...(child.pid === undefined ? {} : { pid: child.pid }) });
    } catch (error) {
      if (child.exitCode === null && child.signalCode === null) say(`the lock could not be renewed: ${(error as Error).message}`);
    }
  };
  await renew();
  const timer = clock.every((ttl_seconds * 1_000) / 3, renew);
  try {
    return await ended;
  } finally {
    timer.cancel();
    await releaseLock(place, owner).catch((error: Error) => say(`the lock could not be released: ${error.message}`));
  }
}

/** Resolves with the exit code; rejects if the program cannot be started. */
const endOf = (child: ChildProcess): Promise<number> =>
  new Promise((resolve, reject) => {
    child.on("error", (error) => {
      // A child with a pid has started, so this error only means that a signal could not be sent. The child continues to run, so the lock
      // must stay.
      if (child.pid === undefined) reject(error);
    });
    child.once("exit", (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
