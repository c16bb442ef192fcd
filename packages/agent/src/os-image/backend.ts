import type { Clock } from "@roamfleet/clock";
import type { OsImageHook, HookCommand } from "../config-file/robot-config.ts";
import { fieldsOf, parseObject } from "../json.ts";
import { inheritedByWorkloads } from "../runtime/executor.ts";
import { StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { runCommand } from "../runtime/spawn-child.ts";

/** The slots of an A/B system. */
export interface SlotStatus {
  /** Name of the slot that the robot runs from. */
  booted: string;
  /** Name of the slot that `install` writes. */
  other: string;
  /** Identifies the current boot: it is different after each boot. Absent: the kernel's boot id is used. */
  boot_id?: string;
}

export interface ImageFile {
  file: string;
  /** Tag of the release. */
  tag: string;
  sha256: string;
}

/** Installs OS images on this robot. All methods may be repeated. They throw StepFailure, or StepAborted if the signal is aborted. */
export interface ImageBackend {
  /** Name for messages, such as `RAUC`. */
  readonly name: string;
  /** Maximum duration of `install`. */
  readonly install_ms: number;
  status(signal: AbortSignal): Promise<SlotStatus>;
  /** Writes the image to the slot that is not running. Waits for an installation that an earlier agent left behind. */
  install(image: ImageFile, signal: AbortSignal): Promise<void>;
  /** Makes this slot the one that the next boot starts. */
  activate(slot: string, signal: AbortSignal): Promise<void>;
  /** Makes the running slot permanent. */
  confirm(signal: AbortSignal): Promise<void>;
  /** Requests a reboot, and returns. */
  reboot(signal: AbortSignal): Promise<void>;
  /** Waits until no installation is running. */
  idle(signal: AbortSignal): Promise<void>;
}

const STATUS_BYTES_MAX = 64 * 1024;

export interface CommandContext {
  clock: Clock;
  environment: Readonly<Record<string, string>>;
}

/** Runs a command of an image backend. Throws StepFailure `rejected_by_robot` with the end of the command's output. */
export async function runImageCommand(
  { clock, environment }: CommandContext,
  { command, timeout_ms }: HookCommand,
  { args = [], env = {}, signal, what }: { args?: readonly string[]; env?: Record<string, string>; signal: AbortSignal; what: string },
): Promise<void> {
  const all = { ...inheritedByWorkloads(environment), ...env };
  const { ok, message } = await runCommand({ argv: [...command, ...args], env: all, timeout_ms, clock, signal });
  throwIfAborted(signal);
  if (!ok) throw new StepFailure("rejected_by_robot", `${what} ${message}`);
}

/** Like `runImageCommand`, but returns the object that the command prints as JSON. */
export async function readImageCommand(
  { clock, environment }: CommandContext,
  { command, timeout_ms }: HookCommand,
  { signal, what }: { signal: AbortSignal; what: string },
): Promise<Record<string, unknown>> {
  const env = inheritedByWorkloads(environment);
  const result = await runCommand({ argv: command, env, timeout_ms, clock, signal, output_bytes_max: STATUS_BYTES_MAX });
  throwIfAborted(signal);
  if (!result.ok) throw new StepFailure("rejected_by_robot", `${what} ${result.message}`);
  const value = parseObject(result.output ?? "");
  if (value === undefined) throw new StepFailure("rejected_by_robot", `${what} printed no JSON object`);
  return value;
}

/** Runs the commands of the robot's own config file. */
export class HookBackend implements ImageBackend {
  readonly name = "the os_image hook";
  readonly #hook: OsImageHook;
  readonly #context: CommandContext;

  constructor(hook: OsImageHook, context: CommandContext) {
    this.#hook = hook;
    this.#context = context;
  }

  get install_ms(): number {
    return this.#hook.install.timeout_ms;
  }

  async status(signal: AbortSignal): Promise<SlotStatus> {
    const what = "os_image.status";
    const { booted, other, boot_id } = fieldsOf(await readImageCommand(this.#context, this.#hook.status, { signal, what }));
    if (typeof booted !== "string" || booted === "" || typeof other !== "string" || other === "" || booted === other)
      throw new StepFailure("rejected_by_robot", `${what} must print {"booted": SLOT, "other": SLOT} with two different slots`);
    return { booted, other, ...(typeof boot_id === "string" && boot_id !== "" ? { boot_id } : {}) };
  }

  async install({ file, tag, sha256 }: ImageFile, signal: AbortSignal): Promise<void> {
    const env = { ROAMFLEET_RELEASE: tag, ROAMFLEET_SHA256: sha256 };
    await runImageCommand(this.#context, this.#hook.install, { args: [file], env, signal, what: "os_image.install" });
  }

  activate(slot: string, signal: AbortSignal): Promise<void> {
    return runImageCommand(this.#context, this.#hook.activate, { args: [slot], signal, what: "os_image.activate" });
  }

  confirm(signal: AbortSignal): Promise<void> {
    return runImageCommand(this.#context, this.#hook.confirm, { signal, what: "os_image.confirm" });
  }

  reboot(signal: AbortSignal): Promise<void> {
    return runImageCommand(this.#context, this.#hook.reboot, { signal, what: "os_image.reboot" });
  }

  // A hook that the agent ended is killed with its process group, so nothing remains.
  async idle(): Promise<void> {}
}
