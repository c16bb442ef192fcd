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
import { thisMachine } from "../safety/machine.ts";
import { type HeldLock, LockBusy, LockHeld, type LockRequest, UpdateLock } from "../safety/update-lock.ts";

/** Where the agent listens, and where its lock file is when it does not run; undefined: nobody knows. */
export interface LockPlace {
  socket: string;
  state_directory: string | undefined;
  clock: Clock;
  say: (line: string) => void;
}

const RETRY_MS = 1_000;
const BUSY_TRIES = 100;
const BUSY_RETRY_MS = 20;

/** Takes or renews the lock by the agent, or by its file when no agent runs. Throws AgentRefused, LockHeld. */
async function take(place: LockPlace, request: LockRequest): Promise<HeldLock> {
  try {
    return (await askAgent<{ lock: HeldLock }>(place.socket, "PUT", "/v1/lock", request)).lock;
  } catch (error) {
    const { state_directory } = place;
    // A file in another directory than the agent's would hold nothing back; an agent that runs, only too busy to answer, may be updating.
    if (!(error instanceof AgentAbsent) || state_directory === undefined) throw error;
    place.say(`${error.message}: the lock is taken for when it runs`);
    makeDirectory(state_directory);
    return whileBusy(place, () => {
      const lock = lockFile(place, state_directory);
      if (lock.held?.owner !== request.owner) refuseWhileChanging(state_directory);
      return lock.take(request);
    });
  }
}

/** Throws what the agent would answer: it goes on, as soon as it runs again, with a change that was begun. */
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

export const isRefusedLock = (error: unknown): boolean =>
  error instanceof LockHeld || (error instanceof AgentRefused && (error.code === "locked" || error.code === "update_in_progress"));

/** As `take`; while another owner holds it, or something is being changed, again each second for `wait_ms`. */
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

/** Gives it back; `owner` undefined: whoever holds it. Answers whether there was one. Throws AgentRefused, LockHeld. */
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
 * Runs a command while the lock is held, renewed in time, and gives it back. Answers the command's exit code, or 128 and its
 * signal's number. Should this process be killed, the lock goes on with the command's own.
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
  // A program that cannot be started is said below, after the lock was given back.
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
    await releaseLock(place, owner).catch((error: Error) => say(`the lock could not be given back: ${error.message}`));
  }
}

/** Rejects when it could not be started. */
const endOf = (child: ChildProcess): Promise<number> =>
  new Promise((resolve, reject) => {
    child.on("error", (error) => {
      // With a pid this is a signal that it does not take of us: it goes on, and the lock has to hold.
      if (child.pid === undefined) reject(error);
    });
    child.once("exit", (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
