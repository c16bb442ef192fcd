import { chmodSync, chownSync, lstatSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { errorCode, isMissing } from "../disk/write-atomically.ts";

/** Linux takes 108 bytes for the path of a unix socket, the zero at its end included. */
export const SOCKET_PATH_BYTES_MAX = 107;
const SOCKET_MODE = 0o660;
/** Whoever may reach the socket passes through the directories to it, and sees nothing of them. */
const PASSABLE_MODE = 0o710;
const PROBE_TIMEOUT_MS = 1_000;

/**
 * Where the robot's own software finds the agent, if nobody says otherwise. In a directory of its own, which containers are
 * given: the state directory holds the private key, and a mount of the file alone shows a dead socket once the agent was restarted.
 */
export const socketIn = (state_directory: string): string => join(state_directory, "run", "agent.sock");

/** The state directory whose default socket this is; undefined for a socket at another place. */
export function stateDirectoryOf(socket: string): string | undefined {
  const state_directory = dirname(dirname(socket));
  return socketIn(state_directory) === socket ? state_directory : undefined;
}

/** Another agent answers at this path, or something is there that is no socket. */
export class SocketTaken extends Error {}

/** Removes a socket that nobody listens at any more. Throws SocketTaken. */
export async function clearSocket(path: string, clock: Clock): Promise<void> {
  try {
    if (!lstatSync(path).isSocket()) throw new SocketTaken(`${path} is there and is no socket`);
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
    // Refused: the file is there and nobody behind it. Anything else (no permission, too many) is somebody's.
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

/** A number, or a name of /etc/group. Throws for a group that is not there. */
export function groupId(group: string, file = "/etc/group"): number {
  if (/^\d+$/.test(group)) return Number(group);
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [name, , id] = line.split(":");
    if (name === group && id !== undefined) return Number(id);
  }
  throw new Error(`there is no group ${group}`);
}
