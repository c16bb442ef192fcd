import fs from "node:fs";
import path from "node:path";
import type { AgentConfig, Logger } from "../../contract.ts";
import { errorText, makeDirectory } from "../../disk/write-atomically.ts";
import { socketIn } from "../../local/socket-path.ts";

/** Path of the directory of the agent's socket in a container. The configs are mounted inside it. */
export const SOCKET_DIRECTORY_INSIDE = "/run/roamfleet";
const CONFIGS = "configs";
export const CONFIGS_INSIDE = `${SOCKET_DIRECTORY_INSIDE}/${CONFIGS}`;

export interface SocketMount {
  /** Directory on the robot. */
  directory: string;
  /** Path of the socket inside the container. */
  inside: string;
}

export interface SocketDirectoryOptions {
  config: Pick<AgentConfig, "state_directory" | "local_api">;
  log: Logger;
}

/** The directory of the agent's socket, for mounting into containers: only while it contains nothing else. */
export class SocketDirectory {
  readonly #options: SocketDirectoryOptions;
  #told: string | undefined;

  constructor(options: SocketDirectoryOptions) {
    this.#options = options;
  }

  /**
   * Returns the directory to mount, and creates it if necessary, for example after a reboot that emptied it. Returns undefined if there is no socket,
   * or if it must not be mounted, which is logged once. Never throws.
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
    if (other !== undefined) return `${directory} contains other files too, such as ${other}`;
    // A mount point for the configs cannot be created later in a directory that is mounted read-only.
    makeDirectory(path.join(directory, CONFIGS));
    const inside = fs.readdirSync(path.join(directory, CONFIGS))[0];
    return inside === undefined ? undefined : `${path.join(directory, CONFIGS)} is not empty`;
  } catch (error) {
    return errorText(error);
  }
}
