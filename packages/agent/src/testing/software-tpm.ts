import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";

/** Returns why no TPM can be simulated here; undefined if one can. */
export function whyNoSoftwareTpm(): string | undefined {
  const missing = ["swtpm", "tpm2_sign"].filter((name) => spawnSync("sh", ["-c", `command -v ${name}`]).status !== 0);
  return missing.length === 0 ? undefined : `not installed: ${missing.join(", ")}`;
}

export interface SoftwareTpm {
  /** The variables with which tpm2-tools find this TPM. */
  readonly environment: Record<string, string>;
  /** Path of the socket to which QEMU connects. */
  readonly control: string;
  /** Restarts the TPM, as a reboot of the machine does. With `forget`, it loses all keys, as if it were another TPM. */
  restart(options?: { forget?: boolean }): Promise<void>;
}

/** Starts a TPM 2.0 (swtpm) for commands or for a virtual machine, with its state in `directory`. It ends with the test. */
export async function startSoftwareTpm(
  t: TestContext,
  directory: string,
  used_by: "commands" | "machine" = "commands",
): Promise<SoftwareTpm> {
  const state = join(directory, "state");
  const socket = join(directory, "socket");
  // tpm2-tools derive the name of the control socket.
  const control = `${socket}.ctrl`;
  // QEMU needs only the control socket. Through it, QEMU sets up the connection for commands and starts the TPM.
  const server = used_by === "machine" ? [] : ["--server", `type=unixio,path=${socket}`];
  const flags = used_by === "machine" ? "startup-clear" : "not-need-init,startup-clear";
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    mkdirSync(state, { recursive: true });
    const places = ["--tpmstate", `dir=${state}`, ...server, "--ctrl", `type=unixio,path=${control}`, "--flags", flags];
    child = spawn("swtpm", ["socket", "--tpm2", ...places], { stdio: "ignore" });
    await until("the TPM to listen", () => existsSync(used_by === "machine" ? control : socket));
  };
  const stop = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "close");
    child.kill("SIGKILL");
    await ended;
  };
  t.after(stop);
  await start();
  return {
    environment: { TPM2TOOLS_TCTI: `swtpm:path=${socket}`, PATH: process.env.PATH ?? "" },
    control,
    restart: async ({ forget = false } = {}) => {
      await stop();
      for (const file of [socket, control, ...(forget ? [state] : [])]) rmSync(file, { recursive: true, force: true });
      await start();
    },
  };
}
