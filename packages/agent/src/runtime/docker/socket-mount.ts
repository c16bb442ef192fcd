import fs from "node:fs";
import path from "node:path";
import type { AgentConfig, Logger } from "../../contract.ts";
import { errorText, makeDirectory } from "../../disk/write-atomically.ts";
import { socketIn } from "../../local/socket-path.ts";

/** Where a container finds the directory of the agent's socket, and in it, mounted on top, its configs. */
export const SOCKET_DIRECTORY_INSIDE = "/run/roamfleet";
const CONFIGS = "configs";
export const CONFIGS_INSIDE = `${SOCKET_DIRECTORY_INSIDE}/${CONFIGS}`;

export interface SocketMount {
  /** Of the robot. */
  directory: string;
  /** The socket as the container sees it. */
  inside: string;
}

export interface SocketDirectoryOptions {
  config: Pick<AgentConfig, "state_directory" | "local_api">;
  log: Logger;
}

/** The directory of the agent's socket, for containers to have: only while nothing else is in it. */
export class SocketDirectory {
  readonly #options: SocketDirectoryOptions;
  #told: string | undefined;

  constructor(options: SocketDirectoryOptions) {
    this.#options = options;
  }

  /**
   * Answers what to mount, and sees to it that it can be mounted, also after a reboot that emptied it; undefined when there is no
   * socket, or containers cannot be given it, which is said once. Never throws.
   */
  prepare(): SocketMount | undefined {
    const { config, log } = this.#options;
    const socket = config.local_api?.socket;
    if (socket === undefined) return undefined;
    const directory = path.dirname(socket);
    const reason = whyNot(socket, directory, config.state_directory);
    if (reason === undefined) return { directory, inside: `${SOCKET_DIRECTORY_INSIDE}/${path.basename(socket)}` };
    if (reason !== this.#told) log.warn({ socket, reason }, "containers do not get the agent's socket");
    this.#told = reason;
    return undefined;
  }
}

function whyNot(socket: string, directory: string, state_directory: string): string | undefined {
  try {
    if (socket === socketIn(state_directory)) makeDirectory(directory);
    if (directory.includes(":")) return `${directory} has a colon`;
    const other = fs.readdirSync(directory).find((name) => name !== path.basename(socket) && name !== CONFIGS);
    if (other !== undefined) return `${directory} holds other things too, such as ${other}`;
    // What is mounted to read only gets no directory later: the configs need theirs before.
    makeDirectory(path.join(directory, CONFIGS));
    const inside = fs.readdirSync(path.join(directory, CONFIGS))[0];
    return inside === undefined ? undefined : `${path.join(directory, CONFIGS)} is not empty`;
  } catch (error) {
    return errorText(error);
  }
}
