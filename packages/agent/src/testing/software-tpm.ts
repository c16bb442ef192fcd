import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
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
  /** Ends and starts the TPM, as a reboot of the machine does. */
  restart(): Promise<void>;
  /** Ends the TPM. */
  stop(): Promise<void>;
}

/** Starts a TPM 2.0 (swtpm) with its state in `directory`. It ends with the test. */
export async function startSoftwareTpm(t: TestContext, directory: string): Promise<SoftwareTpm> {
  mkdirSync(directory, { recursive: true });
  const socket = join(directory, "socket");
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    const places = [
      "--tpmstate",
      `dir=${directory}`,
      "--server",
      `type=unixio,path=${socket}`,
      "--ctrl",
      `type=unixio,path=${socket}.ctrl`,
    ];
    child = spawn("swtpm", ["socket", "--tpm2", ...places, "--flags", "not-need-init,startup-clear"], { stdio: "ignore" });
    await until("the TPM to listen", () => existsSync(socket));
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
    restart: async () => {
      await stop();
      spawnSync("rm", ["-f", socket]);
      await start();
    },
    stop,
  };
}
