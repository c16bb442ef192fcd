import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";

const STOP_MS = 20_000;
const CGROUPS = "/sys/fs/cgroup";
/** Prefix of the names of an engine's directories and cgroups. The pid of the process that started the engine follows. */
const PREFIX = "rf-dockerd-";

/** Returns why no separate container engine can be started here; undefined if it can. */
export function whyNoDockerd(): string | undefined {
  if (process.getuid?.() !== 0) return "dockerd needs root";
  return spawnSync("dockerd", ["--version"]).status === 0 ? undefined : "dockerd is not installed (Debian's docker.io)";
}

/**
 * A separate dockerd without network and iptables. All its data is in one directory. Disposing it ends its containers and removes
 * everything.
 */
export class DockerEngine implements AsyncDisposable {
  readonly #directory: string;
  readonly #data: string;
  readonly #flags: readonly string[];
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #output = "";

  private constructor(place: string, flags: readonly string[]) {
    // Keep the path short: the path of containerd's socket below it may have at most 107 characters.
    this.#directory = fs.mkdtempSync(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
    this.#data = place === "" ? path.join(this.#directory, "data") : path.join(place, "data");
    this.#flags = flags;
  }

  /** `place` is the directory in which the engine stores its images, such as a small disk. */
  static async start({ place = "", flags = [] }: { place?: string; flags?: readonly string[] } = {}): Promise<DockerEngine> {
    await removeAbandonedEngines();
    const engine = new DockerEngine(place, flags);
    try {
      await engine.restart();
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
    return engine;
  }

  get socket(): string {
    return path.join(this.#directory, "docker.sock");
  }

  get data(): string {
    return this.#data;
  }

  /** What the engine has printed so far. */
  get output(): string {
    return this.#output;
  }

  /** Starts the engine with its existing data, and waits until it answers. */
  async restart(): Promise<void> {
    const words = ["--data-root", this.#data, "--exec-root", path.join(this.#directory, "run"), "-H", `unix://${this.socket}`];
    const more = [
      "-p",
      path.join(this.#directory, "pid"),
      "--bridge=none",
      "--iptables=false",
      `--cgroup-parent=/${path.basename(this.#directory)}`,
    ];
    const child = spawn("dockerd", [...words, ...more, ...this.#flags], { stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => (this.#output = (this.#output + text).slice(-64_000)));
    this.#ended = new Promise((resolve) => child.once("close", () => resolve()));
    const look = async (): Promise<boolean> => {
      if (child.exitCode !== null) throw new Error(`dockerd ended:\n${this.#output.slice(-4_000)}`);
      return (await this.ask("GET", "/_ping").catch(() => undefined)) === "OK";
    };
    await until("dockerd to answer", look, { detail: () => this.#output.slice(-4_000) });
  }

  /** Stops the engine. By default this is graceful and also stops its containers. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    // Kill containerd, too, since it would wait for the killed dockerd.
    if (signal === "SIGKILL") {
      killProcesses(this.#directory, /containerd --config/);
      // Remove the pid file, as after a power loss. Otherwise a zombie process that is never reaped would count as a running containerd.
      fs.rmSync(path.join(this.#directory, "run", "containerd", "containerd.pid"), { force: true });
    }
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await this.#ended;
    clearTimeout(late);
    fs.rmSync(this.socket, { force: true });
  }

  /** Sends a request to the engine's API and returns the body. Throws if the status is above 399. */
  ask(method: string, place: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const request = http.request({ socketPath: this.socket, method, path: place, agent: false }, (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (text: string) => (body += text));
        response.on("end", () =>
          (response.statusCode ?? 500) < 400 ? resolve(body) : reject(new Error(`${method} ${place}: ${response.statusCode} ${body}`)),
        );
      });
      request.on("error", reject);
      request.end();
    });
  }

  async containers(): Promise<{ Id: string; State: string; ImageID: string; Labels: Record<string, string> }[]> {
    return JSON.parse(await this.ask("GET", "/containers/json?all=1"));
  }

  async images(): Promise<{ Id: string; RepoTags: string[] | null; RepoDigests: string[] | null }[]> {
    return JSON.parse(await this.ask("GET", "/images/json"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Remove the containers that the agent has only stopped.
    for (const { Id } of await this.containers().catch(() => [])) await this.ask("DELETE", `/containers/${Id}?force=1`).catch(() => {});
    await this.stop();
    await removeEngine(this.#directory, this.#data);
  }
}

/**
 * Removes the leftovers of engines whose process was killed, for example with its test run. Errors are ignored: another process may be
 * removing the same leftovers, or stopping its engine.
 */
export async function removeAbandonedEngines(): Promise<void> {
  const names = new Set([os.tmpdir(), ...cgroupRoots()].flatMap(namesIn));
  for (const name of names) {
    const [, pid] = new RegExp(`^${PREFIX}(\\d+)-\\w+$`).exec(name) ?? [];
    if (pid === undefined || fs.existsSync(`/proc/${pid}`)) continue;
    await removeEngine(path.join(os.tmpdir(), name)).catch(() => {});
  }
}

/** Returns the names in a directory; none if it was removed meanwhile. */
function namesIn(directory: string): string[] {
  try {
    return fs.readdirSync(directory);
  } catch {
    return [];
  }
}

/** Removes the processes, mounts, directories and cgroups of an engine. */
async function removeEngine(directory: string, data = directory): Promise<void> {
  killProcesses(directory, /./);
  for (const cgroup of cgroupsOf(directory)) killMembers(cgroup);
  for (const one of [data, directory]) {
    for (const place of mountsBelow(one)) spawnSync("umount", ["-l", place]);
    fs.rmSync(one, { recursive: true, force: true });
  }
  for (const cgroup of cgroupsOf(directory)) await removeCgroups(cgroup);
}

/** Returns the cgroup directories of the engine, one for each controller. */
const cgroupsOf = (directory: string): string[] =>
  cgroupRoots()
    .map((place) => path.join(place, path.basename(directory)))
    .filter((cgroup) => fs.existsSync(cgroup));

const cgroupRoots = (): string[] => (fs.existsSync(CGROUPS) ? [CGROUPS, ...groupsBelow(CGROUPS)] : []);

/** Kills the engine's processes that match `command`, such as the containerd and the shims that a killed dockerd leaves. */
function killProcesses(directory: string, command: RegExp): void {
  for (const name of fs.readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const words = fs.readFileSync(`/proc/${name}/cmdline`, "latin1").replaceAll("\0", " ");
      if (words.includes(`${directory}/`) && command.test(words) && !words.includes("node")) process.kill(Number(name), "SIGKILL");
    } catch {
      // The process has ended.
    }
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns the mounts below a directory, innermost first. */
function mountsBelow(directory: string): string[] {
  return fs
    .readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "")
    .filter((place) => place === directory || place.startsWith(`${directory}/`))
    .toSorted((a, b) => b.length - a.length);
}

const groupsBelow = (directory: string): string[] =>
  fs
    .readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => path.join(directory, name));

/** Kills the processes in a cgroup and its descendants: containers whose engine is gone. */
function killMembers(directory: string): void {
  for (const inner of groupsBelow(directory)) killMembers(inner);
  for (const pid of fs.readFileSync(path.join(directory, "cgroup.procs"), "utf8").split("\n").map(Number)) {
    // A process of another PID namespace is listed as 0. It is left out, because a signal to 0 reaches this process's own group.
    if (pid > 0) process.kill(pid, "SIGKILL");
  }
}

/** Removes the directories of cgroups, innermost first. A cgroup is busy for a moment after its last process has left. */
async function removeCgroups(directory: string): Promise<void> {
  for (const inner of groupsBelow(directory)) await removeCgroups(inner);
  for (let tries = 0; tries < 50; tries += 1) {
    try {
      return fs.rmdirSync(directory);
    } catch {
      await sleep(20);
    }
  }
}
