import { spawn } from "node:child_process";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { type CommandOptions, type CommandResult, outputOf } from "./run-command.ts";

/** Longest wait for a machine: virtual machines run by emulation, on two cores that other tests use too. */
export const MACHINE_WAIT_MS = 180_000;
const POLL_MS = 100;

/** A machine with systemd, on which commands run as root: a container or a virtual machine. */
export abstract class Machine {
  /** Runs a command in the machine. Resolves with any exit code. */
  abstract exec(argv: readonly string[], options?: CommandOptions): Promise<CommandResult>;

  /** The latest console output, for the message of a failed wait. */
  protected abstract console(): Promise<string>;

  /** Runs a command and returns its stdout. Throws its output if the exit code is not 0. */
  async run(argv: readonly string[], options?: CommandOptions): Promise<string> {
    return outputOf(argv, await this.exec(argv, options));
  }

  /** Runs a shell script, with `set -e`, and returns its stdout. Throws its output if the exit code is not 0. */
  sh(script: string, options?: CommandOptions): Promise<string> {
    return this.run(["sh", "-ec", script], options);
  }

  /** Copies a file or directory of this machine to `target`, which is created with its parents or replaced. Owner is root. */
  async copyIn(source: string, target: string): Promise<void> {
    const { dir, base } = path.parse(path.resolve(source));
    const tar = spawn("tar", ["-C", dir, "--owner=0", "--group=0", "-cf", "-", base], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise<number | null>((resolve, reject) => tar.once("close", resolve).once("error", reject));
    const unpack =
      'd=$(mktemp -d "$1.XXXXXX" 2>/dev/null || { mkdir -p "$(dirname "$1")"; mktemp -d "$1.XXXXXX"; }); tar -xf - -C "$d"; rm -rf "$1"; mv "$d/$2" "$1"; rmdir "$d"';
    await this.run(["sh", "-ec", unpack, "sh", target, base], { input: tar.stdout });
    const code = await ended;
    if (code !== 0) throw new Error(`tar of ${source} ended with ${code}`);
  }

  /** Writes a file in the machine, with its parent directories. */
  async write(file: string, content: string | Uint8Array, mode = "0644"): Promise<void> {
    await this.run(["sh", "-ec", 'mkdir -p "$(dirname "$1")"; cat > "$1"; chmod "$2" "$1"', "sh", file, mode], { input: content });
  }

  async read(file: string): Promise<string> {
    return this.run(["cat", file]);
  }

  /** Polls until `look` returns a truthy value. An error of `look`, such as a failed command, counts as "not yet". */
  until<T>(what: string, look: () => T | Promise<T>, deadline_ms = MACHINE_WAIT_MS) {
    return until(what, look, { deadline_ms, poll_ms: POLL_MS, despite_errors: true }).catch(async (error: unknown) => {
      throw new Error(`${error instanceof Error ? error.message : String(error)}\n${await this.console()}`, { cause: error });
    });
  }

  /** Returns properties of a unit, such as ActiveState, MainPID, Result. */
  async unit<Name extends string>(unit: string, ...names: Name[]): Promise<Record<Name, string>> {
    const text = await this.run(["systemctl", "show", unit, `--property=${names.join(",")}`]);
    const lines = text.split("\n").map((line): [string, string] => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]);
    return Object.fromEntries(lines.filter(([name]) => name !== "")) as Record<Name, string>;
  }

  /** Waits until the unit has the state: active, inactive, failed. A timeout shows the unit's journal. */
  async waitForUnit(unit: string, state = "active", deadline_ms = MACHINE_WAIT_MS): Promise<void> {
    const look = async (): Promise<boolean> => (await this.unit(unit, "ActiveState")).ActiveState === state;
    await until(`${unit} to be ${state}`, look, { deadline_ms, poll_ms: POLL_MS, despite_errors: true }).catch(async (error: unknown) => {
      throw new Error(`${error instanceof Error ? error.message : String(error)}\n${await this.journal(unit)}`, { cause: error });
    });
  }

  /** Returns the messages of a unit, oldest first; at most the latest 1000. */
  async journal(unit: string): Promise<string> {
    return (await this.exec(["journalctl", "--unit", unit, "--output=cat", "--no-pager", "--lines=1000"])).stdout;
  }

  /** Waits until systemd has started everything. Throws with the failed units if some failed. */
  async waitUntilBooted(): Promise<void> {
    const state = await this.until("systemd to finish booting", async () => {
      const { stdout } = await this.exec(["systemctl", "is-system-running"]);
      return /^(running|degraded|maintenance)$/.exec(stdout.trim())?.[0];
    });
    if (state === "running") return;
    const { stdout } = await this.exec(["systemctl", "list-units", "--failed", "--no-legend", "--plain"]);
    throw new Error(`the machine booted, but is ${state}: ${stdout}\n${await this.console()}`);
  }
}
