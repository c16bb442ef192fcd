import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { type Dirent, existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";

/** Thrown if the dashboard could not be built. Users see the message. */
export class NotBuilt extends Error {}

export interface BuildOptions {
  clone: string;
  clock: Clock;
  log: Logger;
}

/** Time limit of a build, which usually takes seconds. A build that hangs must not prevent the server from starting. */
const BUILD_TIMEOUT_MS = 180_000;
const OUTPUT_BYTES_MAX = 16 * 1024;
/**
 * Minimum age at which builds of other versions of the sources are deleted. A younger build may be unfinished, or its server may not have
 * read it yet.
 */
const OLD_AFTER_MS = 600_000;

/**
 * Returns the directory of the dashboard built from the present sources. Builds the dashboard if that directory does not exist. The
 * directory is named after the digest of the sources and created by a rename, so servers can start concurrently. Throws NotBuilt.
 */
export async function ensureBuilt(options: BuildOptions): Promise<string> {
  const { clone, log, clock } = options;
  const builds = path.join(clone, "packages/dashboard/dist");
  const built = path.join(builds, await digestSources(clone));
  if (existsSync(built)) return built;
  const started_at = clock.monotonic();
  log.info({ directory: built }, "building the dashboard");
  const unfinished = path.join(builds, `.building-${randomBytes(6).toString("hex")}`);
  try {
    await makeDirectory(unfinished);
    await runBuild(options, unfinished);
    await publish(unfinished, built);
    await removeOld(builds, built);
  } finally {
    await rm(unfinished, { recursive: true, force: true }).catch(() => {});
  }
  log.info({ ms: Math.round(clock.monotonic() - started_at) }, "the dashboard was built");
  return built;
}

async function makeDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EACCES" && code !== "EROFS" && code !== "EPERM") throw error;
    throw new NotBuilt(
      "The dashboard is not built yet, and the server's user may not write to its directory. Run “npm run build” as the owner of the files.",
      {
        cause: error,
      },
    );
  }
}

/** Runs the bundler in a separate process, so that its memory is freed afterwards and it has no access to the server's secrets. */
async function runBuild({ clone, clock, log }: BuildOptions, directory: string): Promise<void> {
  const child: ChildProcess = spawn(process.execPath, [path.join(clone, "packages/dashboard/build.ts"), directory], {
    cwd: clone,
    env: { NODE_ENV: "production", NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  // If no file descriptors are free, the child process has no pipes and emits "error" later.
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => (output = (output + text).slice(-OUTPUT_BYTES_MAX)));
  let is_late = false;
  const late = clock.setTimer(BUILD_TIMEOUT_MS, () => {
    is_late = true;
    child.kill("SIGKILL");
  });
  const code = await new Promise<number | null>((resolve) => {
    child.on("error", (error) => {
      output += error.message;
      resolve(null);
    });
    child.once("close", resolve);
  });
  late.cancel();
  if (code === 0) return;
  const why = is_late
    ? `The build of the dashboard did not finish within ${BUILD_TIMEOUT_MS / 1_000} seconds.`
    : "The build of the dashboard failed.";
  log.warn({ output: output.trim(), code }, "the build of the dashboard failed");
  throw new NotBuilt(`${why} See the server's log for the reason, and run “npm run build” to try again.`);
}

/** Renames the finished build to its final directory. If another server has renamed an identical build first, uses that one. */
async function publish(unfinished: string, built: string): Promise<void> {
  try {
    await rename(unfinished, built);
  } catch (error) {
    if (!existsSync(built)) throw error;
  }
}

/** Deletes old builds of other versions of the sources. Running servers do not need the files, because they have them in memory. */
async function removeOld(builds: string, kept: string): Promise<void> {
  const now_ms = (await stat(kept)).mtimeMs;
  for (const name of await readdir(builds)) {
    const directory = path.join(builds, name);
    const found = await stat(directory).catch(() => undefined);
    if (found === undefined || now_ms - found.mtimeMs < OLD_AFTER_MS) continue;
    await rm(directory, { recursive: true, force: true });
  }
}

/** Root directory of the repository that this server runs from. */
export const CLONE = path.resolve(import.meta.dirname, "../../../../..");

/** Files and folders of the repository that the build of the dashboard depends on. */
const INPUTS = [
  "package-lock.json",
  "packages/dashboard/build.ts",
  "packages/dashboard/index.html",
  "packages/dashboard/package.json",
  "packages/dashboard/public",
  "packages/dashboard/src",
  "packages/dashboard/vite.config.ts",
  "packages/clock/src",
  "packages/protocol/src",
  "packages/sdk/src",
];
const DIGEST_CHARACTERS = 32;

/** Whether the sources of the dashboard exist. They are missing if only the server was installed. */
export const hasSources = (clone: string): boolean => existsSync(path.join(clone, "packages/dashboard/src"));

/**
 * Returns a digest of the names and contents of all inputs of the build. Ignores modification times, because `git checkout` changes them.
 * Takes 25 ms for 600 files.
 */
export async function digestSources(clone: string): Promise<string> {
  const files = (await Promise.all(INPUTS.map((input) => filesOf(clone, input)))).flat().toSorted();
  const contents = await Promise.all(files.map((file) => readFile(path.join(clone, file))));
  const digest = createHash("sha256");
  for (const [index, file] of files.entries()) {
    const content = contents[index] as Buffer;
    digest.update(`${file}\0${content.length}\0`).update(content);
  }
  return digest.digest("hex").slice(0, DIGEST_CHARACTERS);
}

async function filesOf(clone: string, input: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(path.join(clone, input), { withFileTypes: true, recursive: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOTDIR") return [input];
    if (code === "ENOENT") return [];
    throw error;
  }
  return entries
    .filter((entry) => entry.isFile() && !/\.test\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(clone, path.join(entry.parentPath, entry.name)));
}
