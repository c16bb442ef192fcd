import assert from "node:assert/strict";
import { hash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { processesWithEnvironment } from "../../packages/agent/src/runtime/processes.ts";

/** Returns what a robot runs: its processes, the current releases with every file, placed files, its key and the trusted keys. */
export function readRunning(state: string, apps: readonly string[]): string {
  const processes = processesWithEnvironment({ ROAMFLEET_CONFIG_DIR: path.join(state, "configs") });
  // Ignore `sleep`, which scripts start many times per second.
  const lines = processes
    .filter(({ pid, group }) => pid === group)
    .map(({ pid }) => `pid ${pid}`)
    .toSorted();
  for (const app of apps) {
    const current = path.join(state, "apps", app, "current");
    if (fs.existsSync(current)) lines.push(`${app} ${fs.readlinkSync(current)}`, ...filesOf(fs.realpathSync(current)));
  }
  const identity = filesOf(path.join(state, "identity")).filter((line) => !line.includes("/server-time "));
  lines.push(...filesOf(path.join(state, "files")), ...identity);
  return lines.join("\n");
}

function filesOf(directory: string): string[] {
  if (!fs.existsSync(directory)) return [];
  return fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => {
      const file = path.join(parentPath, name);
      return `${file} ${fs.statSync(file).mode} ${hash("sha256", fs.readFileSync(file))}`;
    })
    .toSorted();
}

/** Counts attacks by channel, and compares what the robot runs before and after each. */
export class AttackLedger {
  readonly channels = new Map<string, number>();
  readonly changes: string[] = [];

  async attack(channel: string, what: string, look: () => string, act: () => Promise<unknown>): Promise<void> {
    const before = look();
    await act();
    this.channels.set(channel, (this.channels.get(channel) ?? 0) + 1);
    if (look() !== before) this.changes.push(`${channel}: ${what}\n${before}\n---\n${look()}`);
  }

  get attacks(): number {
    return [...this.channels.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Throws unless nothing changed. */
  check(): void {
    assert.deepEqual(this.changes, []);
  }
}
