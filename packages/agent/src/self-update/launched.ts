import fs from "node:fs";
import path from "node:path";
import {
  errorCode,
  makeDirectory,
  readIfExists,
  removeDurably,
  renameDurably,
  switchSymlink,
  writeAtomically,
} from "../disk/write-atomically.ts";
import { parseObject } from "../json.ts";

/** How the launcher (packages/agent/launch) has started this agent. */
export interface Launched {
  /** Directory of the versions, such as /opt/roamfleet/agent. */
  root: string;
  /** The running version: the name of its directory. */
  version: string;
  /** Directory of files that a reboot deletes, such as the heartbeat. */
  run_directory: string;
  launcher_pid: number;
}

export interface SelfUpdate {
  launched: Launched;
  /** Resolves when the server has acknowledged a report of this run of the agent. */
  acknowledged: Promise<void>;
  /** Ends this agent without stopping the workloads; the launcher then starts the version that was requested. */
  replace: () => void;
}

/** The file `agent.json` of an agent's tarball. */
export interface AgentDescription {
  version: string;
  arch: string;
  commit?: string;
}

/** Why the launcher has returned to the previous version. */
export interface FailedTrial {
  version: string;
  reason: string;
  message: string;
}

/** Exit code of an agent that ends so that the launcher starts another version. */
export const EXIT_REPLACED = 75;

/** Versions are names of directories: digits first, no separators, not the name of another file. */
const VERSION = /^\d[0-9A-Za-z.+~-]{0,63}$/;
export const isVersion = (text: unknown): text is string => typeof text === "string" && VERSION.test(text);

const PARTIAL = ".partial";
/** List of the files that dpkg owns. The launcher's package installs one version. */
const DPKG_LIST = "/var/lib/dpkg/info/roamfleet-agent.list";

/** The versions on the disk, and the files by which agent and launcher agree on the version that runs. docs/decisions/0082 lists them. */
export class Versions {
  readonly #launched: Launched;

  constructor(launched: Launched) {
    this.#launched = launched;
  }

  get root(): string {
    return this.#launched.root;
  }

  /** True if versions can be added: false on a read-only file system and without the rights of the directory's owner. */
  get is_writable(): boolean {
    try {
      fs.accessSync(this.root, fs.constants.W_OK);
      return true;
    } catch {
      return false;
    }
  }

  directory(version: string): string {
    return path.join(this.root, version);
  }

  /** Returns the directory in which an archive is unpacked before its version is known. */
  partial(sha256: string): string {
    return path.join(this.root, `.${sha256.slice(0, 16)}${PARTIAL}`);
  }

  has(version: string): boolean {
    return ["bin/node", "rf-agent.mjs"].every((name) => fs.existsSync(path.join(this.directory(version), name)));
  }

  /** Returns the version that a symlink names; undefined if it does not exist. */
  #target(name: "current" | "previous"): string | undefined {
    try {
      return path.basename(fs.readlinkSync(path.join(this.root, name)));
    } catch (error) {
      if (errorCode(error) === "ENOENT" || errorCode(error) === "EINVAL") return undefined;
      throw error;
    }
  }

  /** The version that runs after the next boot. */
  get current(): string | undefined {
    return this.#target("current");
  }

  get failed(): FailedTrial | undefined {
    const [version = "", reason = "", message = ""] = (readIfExists(path.join(this.root, "failed"))?.toString("utf8") ?? "").split("\n");
    if (version === "") return undefined;
    return {
      version,
      reason: reason || "health_check_failed",
      message: message || `agent ${version} did not work; the disk was too full to record why`,
    };
  }

  forgetFailed(): void {
    if (fs.existsSync(path.join(this.root, "failed"))) removeDurably(path.join(this.root, "failed"));
  }

  /** Requests that the launcher tries a version as soon as this agent has ended. */
  requestTrial(version: string): void {
    writeAtomically(path.join(this.root, "next"), `${version}\n`, 0o644);
  }

  /** Notifies the launcher that the server has acknowledged a report of this version. The launcher then keeps the version. */
  noteReported(): void {
    makeDirectory(this.#launched.run_directory, 0o755);
    fs.writeFileSync(path.join(this.#launched.run_directory, "reported"), "");
  }

  /** Makes the running version current: the launcher no longer returns to the previous one. */
  confirm(): void {
    const { version } = this.#launched;
    const before = this.current;
    if (before === version) return;
    if (before !== undefined) switchSymlink(path.join(this.root, "previous"), before);
    switchSymlink(path.join(this.root, "current"), version);
  }

  /** Reads `agent.json` of an unpacked version; undefined if it is absent or malformed. */
  describe(directory: string): AgentDescription | undefined {
    const { version, arch, commit } = parseObject(readIfExists(path.join(directory, "agent.json"))?.toString("utf8") ?? "") ?? {};
    if (!isVersion(version) || typeof arch !== "string") return undefined;
    return { version, arch, ...(typeof commit === "string" ? { commit } : {}) };
  }

  /**
   * Deletes versions, except the running, current and previous ones, those of `keep` and those that a Debian package installed. Deletes what
   * an interrupted download left.
   */
  prune(keep: ReadonlySet<string>): void {
    const kept = new Set([...keep, this.#launched.version, this.current, this.#target("previous")]);
    const packaged = readIfExists(DPKG_LIST)?.toString("utf8").split("\n") ?? [];
    for (const name of fs.readdirSync(this.root)) {
      const directory = this.directory(name);
      if (name.endsWith(PARTIAL)) fs.rmSync(directory, { recursive: true, force: true });
      if (!isVersion(name) || kept.has(name) || packaged.includes(directory)) continue;
      // Rename first: a partly deleted version must not look complete.
      const aside = path.join(this.root, `.${name}${PARTIAL}`);
      renameDurably(directory, aside);
      fs.rmSync(aside, { recursive: true, force: true });
    }
  }
}
