import { chmodSync, chownSync, lstatSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { grant } from "../disk/grant.ts";
import { errorCode, isMissing } from "../disk/write-atomically.ts";

/** Maximum length of a unix socket's path in bytes. Linux accepts 108 bytes including the terminating zero. */
export const SOCKET_PATH_BYTES_MAX = 107;
const SOCKET_MODE = 0o660;
/** Added to the mode of the directories above the socket: the group may pass through them, but not list them. */
const PASSABLE = 0o010;
const PROBE_TIMEOUT_MS = 1_000;

/**
 * Returns the default path of the agent's socket. The socket has a separate directory, which containers mount. They must not mount the
 * state directory, which contains the private key. A mount of the socket file alone would break when the agent restarts.
 */
export const socketIn = (state_directory: string): string => join(state_directory, "run", "agent.sock");

/** Returns the state directory whose default socket is at this path; undefined for any other path. */
export function stateDirectoryOf(socket: string): string | undefined {
  const state_directory = dirname(dirname(socket));
  return socketIn(state_directory) === socket ? state_directory : undefined;
}

/** Thrown if another agent listens at this path, or if the file is not a socket. */
class SocketTaken extends Error {}

/** Removes the socket file if no process listens at it. Throws SocketTaken otherwise. */
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
    // ECONNREFUSED and ENOENT mean that no process listens. Any other error, such as a missing permission or too many connections, means
    // that a process listens.
    socket.once("error", (error) => end(errorCode(error) !== "ECONNREFUSED" && errorCode(error) !== "ENOENT"));
  });
}

/** Gives access to the socket to its owner and, if a group is named, to that group. */
export function openToGroup(path: string, state_directory: string, group: string | undefined): void {
  chmodSync(path, SOCKET_MODE);
  if (group === undefined) return;
  const group_id = groupId(group);
  chownSync(path, statSync(path).uid, group_id);
  if (!path.startsWith(`${state_directory}/`)) return;
  for (let directory = dirname(path); directory.length >= state_directory.length; directory = dirname(directory)) {
    grant(directory, PASSABLE, group_id);
  }
}

/** Returns the id of a group, given as a number or as a name in /etc/group. Throws if the group is unknown. */
function groupId(group: string, file = "/etc/group"): number {
  if (/^\d+$/.test(group)) return Number(group);
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [name, , id] = line.split(":");
    if (name === group && id !== undefined) return Number(id);
  }
  throw new Error(`there is no group ${group}`);
}
