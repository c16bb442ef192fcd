import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";

/** Returns why podman cannot be started here; undefined if it can. */
export function whyNoPodman(): string | undefined {
  if (process.getuid?.() !== 0) return "podman needs root here";
  return spawnSync("podman", ["--version"]).status === 0 ? undefined : "podman is not installed (Debian's podman and runc)";
}

/** A separate service of podman with its own socket and directories. */
export class PodmanEngine implements AsyncDisposable {
  readonly #directory = fs.mkdtempSync(path.join(os.tmpdir(), "rf-podman-"));
  readonly #child: ChildProcess;

  private constructor() {
    this.#child = spawn("podman", [...this.#flags, "system", "service", "-t", "0", `unix://${this.socket}`], { stdio: "ignore" });
  }

  static async start(): Promise<PodmanEngine> {
    const engine = new PodmanEngine();
    try {
      await until("podman to answer", () => engine.#answers());
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
    return engine;
  }

  get socket(): string {
    return path.join(this.#directory, "podman.sock");
  }

  /**
   * Flags for this environment: crun does not support hybrid cgroups, and without systemd podman has neither its
   * cgroup manager nor its journal.
   */
  get #flags(): string[] {
    const places = ["--root", path.join(this.#directory, "root"), "--runroot", path.join(this.#directory, "run")];
    return [...places, "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file"];
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const request = http.get({ socketPath: this.socket, path: "/_ping", agent: false }, ({ statusCode }) => resolve(statusCode === 200));
      request.on("error", () => resolve(false));
    });
  }

  /** Returns the tags of the releases that are running. */
  running(): string[] {
    const words = ["ps", "--format", '{{index .Labels "roamfleet.release"}}'];
    return spawnSync("podman", [...this.#flags, ...words], { encoding: "utf8" })
      .stdout.trim()
      .split("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    spawnSync("podman", [...this.#flags, "rm", "--all", "--force", "-t", "0"]);
    const ended = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.kill("SIGTERM");
    if (this.#child.exitCode === null && this.#child.signalCode === null) await ended;
    const mounts = fs.readFileSync("/proc/self/mounts", "utf8").split("\n");
    const places = mounts.map((line) => line.split(" ")[1] ?? "").filter((place) => place.startsWith(`${this.#directory}/`));
    for (const place of places.toSorted((a, b) => b.length - a.length)) spawnSync("umount", ["-l", place]);
    fs.rmSync(this.#directory, { recursive: true, force: true });
  }
}
