import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { DockerEngine, whyNoDockerd } from "../../packages/agent/src/testing/docker-engine.ts";
import { type BaseImageName, ensureBaseImage, whyNoBaseImages, whyNoPrograms } from "./base-image.ts";
import { Machine } from "./machine.ts";
import { type CommandOptions, type CommandResult, outputOf, runCommand } from "./run-command.ts";

const INIT = path.join(import.meta.dirname, "container-init.sh");
/** Prefix of bridge names; the process id follows. */
const BRIDGE = "rfm-";
const SUBNETS = 4_096;

/** Returns why no systemd container can be started here; undefined if it can. */
export function whyNoContainers(): string | undefined {
  return whyNoDockerd() ?? whyNoBaseImages() ?? whyNoPrograms("docker", "ip");
}

export interface ContainerOptions {
  image?: BaseImageName;
  /** Additional options of `docker run`, such as `--read-only` or `--tmpfs=/opt:size=1m`. */
  flags?: readonly string[];
}

/**
 * Containers with systemd as their first process, in a separate container engine. Their network is a bridge of this machine: they reach
 * servers that listen at 0.0.0.0 or at `host`, and nothing else. The host may use cgroup v1: test limits of cgroups in a virtual machine.
 */
export class ContainerRig implements AsyncDisposable {
  readonly #engine: DockerEngine;
  readonly #bridge: Bridge;
  readonly #imported = new Map<BaseImageName, Promise<unknown>>();
  #started = 0;

  private constructor(engine: DockerEngine, bridge: Bridge) {
    this.#engine = engine;
    this.#bridge = bridge;
  }

  static async start(): Promise<ContainerRig> {
    using stack = new DisposableStack();
    const bridge = stack.use(new Bridge());
    const engine = await DockerEngine.start({ flags: [`--bridge=${bridge.name}`, "--ip-masq=false", "--ip-forward=false"] });
    stack.move();
    return new ContainerRig(engine, bridge);
  }

  /** Address of this machine in the containers' network. */
  get host(): string {
    return this.#bridge.address;
  }

  /** Returns the URL at which containers reach a server of this machine that listens at 0.0.0.0. */
  reach(url: string): string {
    return url.replace(/\/\/[^:/]+/, `//${this.host}`);
  }

  /** Starts a container and waits until systemd has booted. */
  async boot({ image = "clean", flags = [] }: ContainerOptions = {}): Promise<SystemdContainer> {
    if (!this.#imported.has(image)) this.#imported.set(image, this.#import(image));
    await this.#imported.get(image);
    const name = `machine-${(this.#started += 1)}`;
    const tmpfs = ["/run:exec", "/run/lock", "/tmp:exec"].map((place) => `--tmpfs=${place}`);
    const rights = ["--cgroupns=private", "--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined"];
    const system = ["--hostname=robot", "--dns=127.0.0.1", "--stop-signal=SIGRTMIN+3", "--env=container=docker"];
    const init = [`--volume=${INIT}:/sbin/container-init:ro`, ...flags, `base:${image}`, "/sbin/container-init"];
    await this.#docker(["run", "--detach", `--name=${name}`, ...rights, ...system, ...tmpfs, ...init]);
    const machine = new SystemdContainer(this.#engine, name);
    await machine.waitUntilBooted();
    return machine;
  }

  async #import(image: BaseImageName): Promise<void> {
    await this.#docker(["import", await ensureBaseImage(image), `base:${image}`]);
  }

  async #docker(words: readonly string[]): Promise<string> {
    const command = ["docker", "--host", `unix://${this.#engine.socket}`, ...words];
    return outputOf(command, await runCommand(command));
  }

  /** Ends all containers of the rig. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine[Symbol.asyncDispose]();
    this.#bridge[Symbol.dispose]();
  }
}

/** A container with systemd as its first process. */
export class SystemdContainer extends Machine implements AsyncDisposable {
  readonly #docker: readonly string[];
  readonly #name: string;

  /** @internal */
  constructor(engine: DockerEngine, name: string) {
    super();
    this.#docker = ["docker", "--host", `unix://${engine.socket}`];
    this.#name = name;
  }

  exec(argv: readonly string[], options?: CommandOptions): Promise<CommandResult> {
    return runCommand([...this.#docker, "exec", "--interactive", this.#name, ...argv], options);
  }

  /** Shuts systemd down and starts the container again, with the same files. */
  async reboot(): Promise<void> {
    await this.#control("stop", "--time=60");
    await this.#control("start");
    await this.waitUntilBooted();
  }

  /** Kills all processes, as a power cut does, and starts the container again. Unlike at a power cut, unsynced writes are kept. */
  async crash(): Promise<void> {
    await this.#control("kill");
    await this.#control("start");
    await this.waitUntilBooted();
  }

  protected async console(): Promise<string> {
    const state = await runCommand([...this.#docker, "ps", "--all"]);
    const journal = await this.exec(["journalctl", "--no-pager", "--lines=50"]);
    return state.stdout + journal.stdout + journal.stderr;
  }

  async #control(word: string, ...options: string[]): Promise<void> {
    const command = [...this.#docker, word, ...options, this.#name];
    outputOf(command, await runCommand(command));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#control("rm", "--force", "--volumes");
  }
}

/**
 * A network interface of this machine, to which containers are connected. It is removed on disposal; if this process is killed, the next
 * process that creates a bridge removes it.
 */
class Bridge implements Disposable {
  static #made = 0;
  readonly name = `${BRIDGE}${process.pid}-${Bridge.#made++}`.slice(0, 15);
  readonly address: string;

  constructor() {
    removeAbandonedBridges();
    const used = ip("-o", "-4", "address");
    const first = process.pid + Bridge.#made;
    const subnets = Array.from({ length: SUBNETS }, (_, index) => (first + index) % SUBNETS);
    const free = subnets.map((subnet) => `10.${216 + (subnet >> 8)}.${subnet & 255}.1`).find((address) => !used.includes(` ${address}/`));
    if (free === undefined) throw new Error("no subnet is free");
    this.address = free;
    ip("link", "add", this.name, "type", "bridge");
    try {
      ip("address", "add", `${this.address}/24`, "dev", this.name);
      ip("link", "set", this.name, "up");
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  [Symbol.dispose](): void {
    spawnSync("ip", ["link", "delete", this.name]);
  }
}

function removeAbandonedBridges(): void {
  for (const name of fs.readdirSync("/sys/class/net")) {
    const [, pid] = new RegExp(`^${BRIDGE}(\\d+)-\\d+$`).exec(name) ?? [];
    if (pid !== undefined && !fs.existsSync(`/proc/${pid}`)) spawnSync("ip", ["link", "delete", name]);
  }
}

function ip(...words: string[]): string {
  const { status, stdout, stderr } = spawnSync("ip", words, { encoding: "utf8" });
  if (status !== 0) throw new Error(`ip ${words.join(" ")}: ${stderr}`);
  return stdout;
}
