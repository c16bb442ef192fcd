import { chmodSync, chownSync, lstatSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { errorCode, isMissing } from "../disk/write-atomically.ts";

/** Linux accepts 108 bytes for the path of a unix socket, including the terminating zero. */
export const SOCKET_PATH_BYTES_MAX = 107;
const SOCKET_MODE = 0o660;
/** Users of the socket may pass through its directories, but not list them. */
const PASSABLE_MODE = 0o710;
const PROBE_TIMEOUT_MS = 1_000;

/**
 * Returns the default path of the agent's socket. It is in a separate directory, which containers mount: the state directory contains the private
 * key, and a mount of the socket file alone breaks when the agent restarts.
 */
export const socketIn = (state_directory: string): string => join(state_directory, "run", "agent.sock");

/** Returns the state directory whose default socket this is; undefined for a socket at another path. */
export function stateDirectoryOf(socket: string): string | undefined {
  const state_directory = dirname(dirname(socket));
  return socketIn(state_directory) === socket ? state_directory : undefined;
}

/** Another agent answers at this path, or the file is not a socket. */
class SocketTaken extends Error {}

/** Removes a socket without a listener. Throws SocketTaken. */
export async function clearSocket(path: string, clock: Clock): Promise<void> {
  try {
    if (!lstatSync(path).isSocket()) throw new SocketTaken(`${path} exists and is not a socket`);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  if (await answers(path, clock)) throw new SocketTaken(`another agent listens at ${path}`);
  rmSync(path, { force: true });
}

function answers(path: string, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const end = (answer: boolean): void => {
      timer.cancel();
      socket.destroy();
      resolve(answer);
    };
    const timer = clock.setTimer(PROBE_TIMEOUT_MS, () => end(true));
    socket.once("connect", () => end(true));
    // ECONNREFUSED: the file has no listener. Any other error (no permission, too many connections) means that there is one.
    socket.once("error", (error) => end(errorCode(error) !== "ECONNREFUSED" && errorCode(error) !== "ENOENT"));
  });
}

/** Lets the owner and, if one is named, a group use the socket. */
export function openToGroup(path: string, state_directory: string, group: string | undefined): void {
  chmodSync(path, SOCKET_MODE);
  if (group === undefined) return;
  const group_id = groupId(group);
  chownSync(path, statSync(path).uid, group_id);
  if (!path.startsWith(`${state_directory}/`)) return;
  for (let directory = dirname(path); directory.length >= state_directory.length; directory = dirname(directory)) {
    chownSync(directory, statSync(directory).uid, group_id);
    chmodSync(directory, PASSABLE_MODE);
  }
}

/** Returns the id for a number or a name of /etc/group. Throws for an unknown group. */
function groupId(group: string, file = "/etc/group"): number {
  if (/^\d+$/.test(group)) return Number(group);
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [name, , id] = line.split(":");
    if (name === group && id !== undefined) return Number(id);
  }
  throw new Error(`there is no group ${group}`);
}
