import { execFileSync } from "node:child_process";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Machine, type Results, rounded } from "./results.ts";

/** One run of the bench, as it is kept. `rows` are those that it measured, and no others. */
export interface Run {
  begun_at: string;
  ended_at: string;
  /** Short hash of the commit, with `+` when files were changed since; "unknown" outside of a repository. */
  commit: string;
  machine: Machine;
  /** Load averages of the last 1, 5 and 15 minutes. */
  load_begin: readonly number[];
  load_end: readonly number[];
  rows: Results;
}

export const RUNS = path.join(import.meta.dirname, "results", "runs");
/** The oldest go. */
export const RUNS_KEPT = 20;

/** Writes a run beside the earlier ones, and lets the oldest go. Answers its file. */
export async function keepRun(run: Run, directory = RUNS, kept = RUNS_KEPT): Promise<string> {
  await mkdir(directory, { recursive: true });
  const file = path.join(directory, `${run.begun_at.slice(0, 16).replaceAll(":", "")}-${run.commit.replace("+", "")}.json`);
  await writeFile(file, `${JSON.stringify({ ...run, rows: rounded(run.rows) })}\n`);
  const files = await listRuns(directory);
  for (const old of files.slice(0, Math.max(0, files.length - kept))) await rm(old);
  return file;
}

/** Files of the runs that are kept, the oldest first. */
export async function listRuns(directory = RUNS): Promise<string[]> {
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .map((name) => path.join(directory, name));
}

export function commitNow(): string {
  try {
    const git = (...args: string[]): string => execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    return git("rev-parse", "--short=8", "HEAD") + (git("status", "--porcelain", "--untracked-files=no") === "" ? "" : "+");
  } catch {
    return "unknown";
  }
}
