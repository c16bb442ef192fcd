import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { ensureBaseImage, whyNoBaseImages, whyNoPrograms } from "./base-image.ts";
import { Machine, MACHINE_WAIT_MS } from "./machine.ts";
import { type CommandOptions, type CommandResult, outputOf, runCommand } from "./run-command.ts";

/** The line that the base image writes to the console after each boot. */
const UP = "MACHINE-UP";
/** Address at which a machine reaches servers of this host. */
const HOST = "10.0.2.100";
const LOCK = path.join(os.tmpdir(), "roamfleet-virtual-machine.lock");
/** Prefix of the directory with the files of a machine. A test run that is killed leaves its directory. */
export const DIRECTORY_PREFIX = path.join(os.tmpdir(), "roamfleet-vm-");
/** Longest wait for the virtual machines of other test runs. */
const LOCK_SECONDS_MAX = 3_600;
const CONSOLE_CHARACTERS_SHOWN = 3_000;
const KERNEL_OPTIONS =
  "root=/dev/vda rw console=ttyS0 quiet mitigations=off systemd.show_status=0 net.ifnames=0 tsc=reliable no_timer_check panic=2";

/** Whether `npm run test:machines` runs: with all machines, at full size. */
export const MACHINES_FULL = process.env.ROAMFLEET_MACHINES === "full";

/** Returns why no virtual machine can be started here; undefined if it can. */
export function whyNoVirtualMachine(): string | undefined {
  if (!MACHINES_FULL && !process.env.CI) return "virtual machines take a minute of CPU time: npm run test:machines";
  return whyNoBaseImages() ?? whyNoPrograms("qemu-system-x86_64", "mke2fs", "cpio", "busybox", "socat", "ssh", "setpriv");
}

export interface VirtualMachineOptions {
  memory_mb?: number;
  /** URLs of servers on this host that the machine can reach, at the URLs that `reach` returns. */
  servers?: readonly string[];
  /** Additional disks (raw images), which are /dev/vdb, /dev/vdc and so on. */
  disks?: readonly string[];
  /** Paths of a root disk and an initrd that replace those of the base image. */
  root?: string;
  initrd?: string;
  /** Additional arguments of QEMU, such as a TPM. */
  qemu?: readonly string[];
}

/**
 * A virtual machine with Debian, emulated by QEMU. It boots in 9 to 33 s. Only one runs on a host at a time; others wait for it. It reaches
 * the given servers and nothing else.
 */
export class VirtualMachine extends Machine implements AsyncDisposable {
  readonly #directory: string;
  readonly #options: VirtualMachineOptions;
  readonly #image: string;
  readonly #port: number;
  readonly #lock: ChildProcess;
  #qemu: ChildProcess | undefined;
  #qemu_output = "";
  #connection: ChildProcess | undefined;

  private constructor(options: VirtualMachineOptions, image: string, port: number, lock: ChildProcess) {
    super();
    removeAbandonedDirectories();
    this.#directory = fs.mkdtempSync(DIRECTORY_PREFIX);
    this.#options = options;
    this.#image = image;
    this.#port = port;
    this.#lock = lock;
  }

  /** Starts a machine with a copy of the base image's disk, and waits until it has booted. */
  static async start(options: VirtualMachineOptions = {}): Promise<VirtualMachine> {
    const image = await ensureBaseImage("vm");
    const machine = new VirtualMachine(options, image, await freePort(), await takeLock());
    try {
      await machine.#copyDisk();
      fs.writeFileSync(machine.#console_file, "");
      await machine.boot();
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
    return machine;
  }

  /** Returns the URL at which the machine reaches one of its servers. */
  reach(url: string): string {
    return url.replace(/\/\/[^:/]+/, `//${HOST}`);
  }

  /** Everything that the machine has printed to its serial console since it was created. */
  get console_output(): string {
    return fs.readFileSync(this.#console_file, "utf8");
  }

  /** Starts the machine after `cutPower`, with the same disk, and waits until it has booted. */
  async boot(): Promise<void> {
    const boots = this.#boots();
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "qemu-system-x86_64", ...this.#qemuArguments()], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#qemu = child;
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => (this.#qemu_output = (this.#qemu_output + text).slice(-16_000)));
    await this.#waitForBoot(boots);
  }

  /** Restarts the system in the machine by `systemctl reboot`. */
  async reboot(): Promise<void> {
    const boots = this.#boots();
    await this.run(["systemd-run", "--quiet", "--on-active=1", "systemctl", "reboot"]);
    await this.waitForReboot(boots);
  }

  /** Waits until the machine has rebooted, if it had booted `boots` times before. */
  async waitForReboot(boots: number): Promise<void> {
    await this.#waitForBoot(boots, () => this.#disconnect());
  }

  /** How often the machine has booted completely. */
  get boots(): number {
    return this.#boots();
  }

  /** Kills the machine, which loses everything that its system has not written to the disk. */
  async cutPower(): Promise<void> {
    const child = this.#qemu;
    if (child?.exitCode === null && child.signalCode === null) {
      const ended = once(child, "close");
      child.kill("SIGKILL");
      await ended;
    }
    this.#qemu = undefined;
    await this.#disconnect();
  }

  /** Copies the root disk of a machine without power. */
  async copyRoot(target: string): Promise<void> {
    await copySparse(path.join(this.#directory, "root.img"), target);
  }

  exec(argv: readonly string[], options?: CommandOptions): Promise<CommandResult> {
    return runCommand([...this.#ssh(), "root@127.0.0.1", "--", argv.map(quote).join(" ")], options);
  }

  protected async console(): Promise<string> {
    return `${this.#qemu_output}\n${this.console_output.slice(-CONSOLE_CHARACTERS_SHOWN)}`;
  }

  get #console_file(): string {
    return path.join(this.#directory, "console");
  }

  #boots(): number {
    return this.console_output.split(UP).length - 1;
  }

  async #copyDisk(): Promise<void> {
    await copySparse(this.#options.root ?? path.join(this.#image, "root.img"), path.join(this.#directory, "root.img"));
  }

  async #waitForBoot(boots: number, afterwards?: () => Promise<void>): Promise<void> {
    const look = (): boolean => {
      const { exitCode = 0, signalCode = null } = this.#qemu ?? {};
      if (exitCode !== null || signalCode !== null)
        throw new Error(`qemu ended: ${this.#qemu_output}\n${this.console_output.slice(-1_000)}`);
      return this.#boots() > boots;
    };
    await until("the machine to boot", look, {
      deadline_ms: MACHINE_WAIT_MS,
      detail: () => this.console_output.slice(-CONSOLE_CHARACTERS_SHOWN),
    });
    await afterwards?.();
    await this.#connect();
    await this.waitUntilBooted();
  }

  /** Opens one SSH connection, which all commands share. Each key exchange would take a second on the emulated processor. */
  async #connect(): Promise<void> {
    await this.until("a connection to the machine", async () => {
      if (this.#connection === undefined || this.#connection.exitCode !== null)
        this.#connection = spawn("ssh", [...this.#ssh().slice(1), "-o", "ControlMaster=yes", "-N", "root@127.0.0.1"], { stdio: "ignore" });
      return (await runCommand([...this.#ssh(), "-O", "check", "root@127.0.0.1"])).code === 0;
    });
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection === undefined || connection.exitCode !== null || connection.signalCode !== null) return;
    const ended = once(connection, "close");
    connection.kill("SIGKILL");
    await ended;
    fs.rmSync(path.join(this.#directory, "ssh"), { force: true });
  }

  #ssh(): string[] {
    const words = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=30"];
    const place = [
      "-F",
      "/dev/null",
      "-i",
      path.join(this.#image, "key"),
      "-S",
      path.join(this.#directory, "ssh"),
      "-p",
      String(this.#port),
    ];
    return ["ssh", ...place, ...words.flatMap((word) => ["-o", word])];
  }

  #qemuArguments(): string[] {
    const { memory_mb = 1024, servers = [], disks = [], initrd = path.join(this.#image, "initrd"), qemu = [] } = this.#options;
    const ports = servers.map((url) => new URL(url).port);
    const forwards = ports.map((port) => `guestfwd=tcp:${HOST}:${port}-cmd:socat - TCP4:127.0.0.1:${port}`);
    const network = ["user", "id=n0", "restrict=on", `hostfwd=tcp:127.0.0.1:${this.#port}-10.0.2.15:22`, ...forwards].join(",");
    const files = [path.join(this.#directory, "root.img"), ...disks];
    const drives = files.flatMap((file, index) => [
      "-drive",
      `file=${file},format=raw,if=none,id=d${index},cache=writeback`,
      "-device",
      `virtio-blk-pci,drive=d${index}`,
    ]);
    const processor = `-M q35 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m ${memory_mb}`;
    const devices = "-nodefaults -no-user-config -display none -device virtio-net-pci,netdev=n0,romfile= -device virtio-rng-pci";
    const console_file = ["-chardev", `file,id=console,path=${this.#console_file},append=on`, "-serial", "chardev:console"];
    const kernel = ["-kernel", path.join(this.#image, "vmlinuz"), "-initrd", initrd, "-append", KERNEL_OPTIONS];
    return [`${processor} ${devices}`.split(" "), "-netdev", network, console_file, drives, kernel, qemu].flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cutPower();
    fs.rmSync(this.#directory, { recursive: true, force: true });
    this.#lock.stdin?.end();
    if (this.#lock.exitCode === null) await once(this.#lock, "close");
  }
}

async function copySparse(source: string, target: string): Promise<void> {
  const command = ["cp", "--sparse=always", source, target];
  outputOf(command, await runCommand(command));
}

const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

/** Removes the directories that killed test runs have left. Needs the lock: a directory exists only while its test run has the lock. */
function removeAbandonedDirectories(): void {
  const { dir, base } = path.parse(DIRECTORY_PREFIX);
  for (const name of fs.readdirSync(dir)) if (name.startsWith(base)) fs.rmSync(path.join(dir, name), { recursive: true, force: true });
}

/** Waits for other virtual machines of this host to end. The lock is released when the returned process loses its stdin. */
async function takeLock(): Promise<ChildProcess> {
  const command = ["--no-fork", "--timeout", String(LOCK_SECONDS_MAX), LOCK, "sh", "-c", "echo locked; exec cat"];
  const lock = spawn("flock", command, { stdio: ["pipe", "pipe", "inherit"] });
  const [first] = (await Promise.race([once(lock.stdout, "data"), once(lock, "close")])) as [unknown];
  if (String(first) !== "locked\n") throw new Error(`another virtual machine has been running for ${LOCK_SECONDS_MAX} s`);
  lock.stdout.resume();
  return lock;
}
