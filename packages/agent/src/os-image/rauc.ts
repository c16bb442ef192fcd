import fs from "node:fs";
import path from "node:path";
import { OS_IMAGE_DEFAULTS } from "../config-file/robot-config.ts";
import { fieldsOf } from "../json.ts";
import { StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { findProgram, runCommand } from "../runtime/spawn-child.ts";
import { type CommandContext, type ImageBackend, type ImageFile, readImageCommand, runImageCommand, type SlotStatus } from "./backend.ts";

/** Paths of RAUC's configuration, in the order in which RAUC tries them. */
const SYSTEM_CONFIGS = ["etc/rauc/system.conf", "run/rauc/system.conf", "usr/lib/rauc/system.conf"];
const INSTALLER = ["de.pengutronix.rauc", "/", "de.pengutronix.rauc.Installer"];
const BUSY_LOOK_MS = 1_000;

/** Returns the path of the program `rauc` if this robot has it and its slots are configured, otherwise undefined. */
export function findRauc(system_root: string, search: string): string | undefined {
  if (!SYSTEM_CONFIGS.some((file) => fs.existsSync(path.join(system_root, file)))) return undefined;
  return findProgram("rauc", search);
}

/** Installs RAUC bundles. RAUC checks their signature with the keyring of the robot's system.conf. */
export class RaucBackend implements ImageBackend {
  readonly name = "RAUC";
  readonly install_ms = OS_IMAGE_DEFAULTS.install_ms;
  readonly #rauc: string;
  readonly #context: CommandContext;

  constructor(rauc: string, context: CommandContext) {
    this.#rauc = rauc;
    this.#context = context;
  }

  async status(signal: AbortSignal): Promise<SlotStatus> {
    const what = "rauc status";
    const command = { command: [this.#rauc, "status", "--output-format=json"], timeout_ms: OS_IMAGE_DEFAULTS.command_ms };
    return raucSlots(await readImageCommand(this.#context, command, { signal, what }));
  }

  async install({ file }: ImageFile, signal: AbortSignal): Promise<void> {
    await this.idle(signal);
    await this.#run(["install", file], signal, this.install_ms);
  }

  async activate(slot: string, signal: AbortSignal): Promise<void> {
    const { booted } = await this.status(signal);
    await this.#run(["status", "mark-active", slot === booted ? "booted" : "other"], signal);
  }

  async confirm(signal: AbortSignal): Promise<void> {
    await this.#run(["status", "mark-good"], signal);
  }

  async reboot(signal: AbortSignal): Promise<void> {
    const command = { command: OS_IMAGE_DEFAULTS.reboot, timeout_ms: OS_IMAGE_DEFAULTS.command_ms };
    await runImageCommand(this.#context, command, { signal, what: "systemctl reboot" });
  }

  /** The service of RAUC continues an installation whose caller was killed, and then makes its slot the next one to boot. */
  async idle(signal: AbortSignal): Promise<void> {
    const { clock } = this.#context;
    const end = clock.monotonic() + this.install_ms;
    while ((await this.#operation(signal)) === "installing") {
      if (clock.monotonic() > end) throw new StepFailure("timeout", "RAUC is busy with another installation");
      await clock.sleep(BUSY_LOOK_MS);
      throwIfAborted(signal);
    }
  }

  /**
   * Returns the current operation of RAUC's service; undefined if the service cannot be queried. In that case `rauc install` reports the
   * reason.
   */
  async #operation(signal: AbortSignal): Promise<string | undefined> {
    const { clock, environment } = this.#context;
    const { output } = await runCommand({
      argv: ["busctl", "--json=short", "get-property", ...INSTALLER, "Operation"],
      env: { ...environment },
      timeout_ms: OS_IMAGE_DEFAULTS.command_ms,
      clock,
      signal,
      output_bytes_max: 1_024,
    });
    throwIfAborted(signal);
    return /"data":"(\w+)"/.exec(output ?? "")?.[1];
  }

  #run(args: readonly string[], signal: AbortSignal, timeout_ms: number = OS_IMAGE_DEFAULTS.command_ms): Promise<void> {
    const what = `rauc ${args[0] === "status" ? args[1] : args[0]}`;
    return runImageCommand(this.#context, { command: [this.#rauc, ...args], timeout_ms }, { signal, what });
  }
}

/** Reads the output of `rauc status --output-format=json`. Throws StepFailure if the robot did not boot from one of two slots. */
export function raucSlots(status: unknown): SlotStatus {
  const { booted, slots } = fieldsOf(status);
  const list = (Array.isArray(slots) ? slots : []).flatMap((one) => Object.values(fieldsOf(one)).map(fieldsOf));
  const running = list.find(({ bootname }) => bootname === booted && typeof bootname === "string");
  const other = list.find((slot) => slot["class"] === running?.["class"] && typeof slot["bootname"] === "string" && slot !== running);
  if (running === undefined || other === undefined)
    throw new StepFailure(
      "rejected_by_robot",
      `the status of RAUC does not show which of two slots the robot booted (booted: ${String(booted)})`,
    );
  return { booted: running["bootname"] as string, other: other["bootname"] as string };
}
