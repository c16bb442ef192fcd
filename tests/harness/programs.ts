import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { buildAgent, buildKillDriver } from "../../packages/agent/build.ts";
import { buildCli } from "../../packages/cli/build.ts";
import { bundleServer } from "../../packages/server/build.ts";

const PROGRAMS = path.join(root, "node_modules", ".cache", "test-programs");
const OLD_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * Bundles `rf`, `rf-agent` and the server as for publishing, and returns their directory. Tests start them hundreds of times: a bundle takes
 * 0.06 s of CPU time to start, and the sources take 0.12 s for `rf` and 0.21 s for `rf-agent`.
 */
export async function buildPrograms(): Promise<string> {
  await mkdir(PROGRAMS, { recursive: true });
  const directory = await mkdtemp(path.join(PROGRAMS, "new-"));
  try {
    await buildCli(path.join(directory, "rf"));
    await buildAgent(path.join(directory, "agent"));
    await buildKillDriver(path.join(directory, "kill-driver"));
    await bundleServer(path.join(directory, "server"));
    // Make the directory readable for others, because agents in tests also start their program as another user.
    await chmod(directory, 0o755);
    // Unchanged programs keep their path, because Node's cache of compiled code depends on it.
    const built = path.join(PROGRAMS, await digestOf(directory));
    await rename(directory, built).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
    // Set the current time, so that another run does not delete these programs as old.
    await utimes(built, new Date(), new Date());
    await removeOld(built);
    return built;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Returns a digest of the names and contents of all files below a directory. */
async function digestOf(directory: string): Promise<string> {
  const hash = createHash("sha256");
  for (const name of (await readdir(directory, { recursive: true })).toSorted()) {
    const file = path.join(directory, name);
    if ((await stat(file)).isFile()) hash.update(`${name}\n`).update(await readFile(file));
  }
  return hash.digest("hex").slice(0, 32);
}

async function removeOld(kept: string): Promise<void> {
  for (const name of await readdir(PROGRAMS)) {
    const directory = path.join(PROGRAMS, name);
    const made_ms = (await stat(directory).catch(() => undefined))?.mtimeMs;
    if (directory === kept || made_ms === undefined || Date.now() - made_ms < OLD_AFTER_MS) continue;
    await rm(directory, { recursive: true, force: true });
  }
}
