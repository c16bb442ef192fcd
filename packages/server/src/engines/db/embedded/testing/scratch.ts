import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import type { EngineLog } from "../../../log.ts";
import { type Connection, type Embedded, type EmbeddedOptions, startEmbedded } from "../index.ts";
import { run } from "../run.ts";
import { killPostgresOn } from "../launch.ts";

const ignore = (): void => {};
export const quietLog: EngineLog = { info: ignore, warn: ignore, error: ignore };

/** Creates a temporary directory. Disposing kills any PostgreSQL on the `databases` in it and removes the directory. */
export async function scratch(): Promise<{ root: string; database: string; [Symbol.asyncDispose](): Promise<void> }> {
  const root = await realpath(await mkdtemp(path.join(os.tmpdir(), "rf-pg-")));
  const database = path.join(root, "postgres");
  return {
    root,
    database,
    async [Symbol.asyncDispose]() {
      await killPostgresOn(database, systemClock);
      await rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    },
  };
}

export function startOn(directory: string, more: Partial<EmbeddedOptions> = {}): Promise<Embedded> {
  return startEmbedded({ directory, log: quietLog, clock: systemClock, parameters: { fsync: "off" }, ...more });
}

/** Copies a stopped database with tar(1), which takes 0.2 s. initdb takes 0.7 to 1.3 s, and cp(1) and fs.cp take more than 1 s. */
export async function copyDatabase(from: string, to: string): Promise<void> {
  const { code, output } = await run("/bin/sh", ["-c", 'mkdir -m 700 "$1" && tar -C "$0" -cf - . | tar -C "$1" -xf -', from, to]);
  if (code !== 0) throw new Error(`copying the database failed: ${output}`);
}

export interface HeldServer {
  child: ChildProcess;
  pid: number;
  adopted: boolean;
  connection: Connection;
}

/** Starts the server process of hold.ts. */
export function spawnServer(directory: string): { child: ChildProcess & { stdout: NonNullable<ChildProcess["stdout"]> } } {
  return {
    child: spawn(process.execPath, [path.join(import.meta.dirname, "hold.ts"), directory], { stdio: ["ignore", "pipe", "inherit"] }),
  };
}

/** Starts the server process of hold.ts and waits for its line. Rejects with the error if that process refuses to start. */
export async function holdServer(directory: string): Promise<HeldServer> {
  const { child } = spawnServer(directory);
  const line = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes("\n")) resolve(text);
    });
    child.once("close", () => reject(new Error(`the server process ended: ${text}`)));
  });
  const answer = JSON.parse(line) as Omit<HeldServer, "child"> & { error?: string };
  if (answer.error !== undefined) throw new Error(answer.error);
  return { ...answer, child };
}

/** Kills a server process with a signal and waits for its end. */
export async function endServer(server: { child: ChildProcess }, signal: NodeJS.Signals): Promise<void> {
  const closed = new Promise((resolve) => server.child.once("close", resolve));
  server.child.kill(signal);
  await closed;
}
