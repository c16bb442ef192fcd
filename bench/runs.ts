import { execFileSync } from "node:child_process";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Machine, type Results, rounded } from "./results.ts";

/** A stored run of the bench. `rows` contains only the rows that it measured. */
export interface Run {
  begun_at: string;
  ended_at: string;
  /** Short hash of the commit, with `+` if files were changed since; "unknown" outside a repository. */
  commit: string;
  machine: Machine;
  /** Load averages of the last 1, 5 and 15 minutes. */
  load_begin: readonly number[];
  load_end: readonly number[];
  rows: Results;
  /** Why a row was not measured, by its name. */
  failed: Readonly<Record<string, string>>;
}

export const RUNS = path.join(import.meta.dirname, "results", "runs");
/** Maximum stored runs; the oldest are deleted. */
export const RUNS_KEPT = 20;

/** Stores a run and deletes the oldest ones. Returns its file. */
export async function keepRun(run: Run, directory = RUNS, kept = RUNS_KEPT): Promise<string> {
  await mkdir(directory, { recursive: true });
  const file = path.join(directory, `${run.begun_at.slice(0, 16).replaceAll(":", "")}-${run.commit.replace("+", "")}.json`);
  await writeFile(file, `${JSON.stringify({ ...run, rows: rounded(run.rows) })}\n`);
  const files = await listRuns(directory);
  for (const old of files.slice(0, Math.max(0, files.length - kept))) await rm(old);
  return file;
}

/** Files of the stored runs, oldest first. */
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
