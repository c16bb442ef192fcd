import { execFileSync, spawn } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";

const LIST = new URL("./debian-packages.txt", import.meta.url);
// Without this file, Debian's postgresql-15 would create and start an unused cluster on port 5432.
const NO_CLUSTER_FILE = "/etc/postgresql-common/createcluster.d/roamfleet-tests.conf";
const INSTALL_TIMEOUT_MS = 15 * 60_000;
const PROGRESS_INTERVAL_MS = 4_000;

/**
 * Installs the missing Debian packages that tests need if run as root, otherwise prints the command. Never fails: a test without its
 * program is skipped.
 */
export async function ensureDebianPackages(say: (line: string) => void): Promise<void> {
  const missing = await missingDebianPackages();
  if (missing === undefined) {
    say("this is not Debian: tests that need programs of its packages skip when those are not in PATH");
    return;
  }
  if (missing.length === 0) return;
  if (process.getuid?.() !== 0) {
    say(`some tests will skip; as root: apt-get update && apt-get install --no-install-recommends ${missing.join(" ")}`);
    return;
  }
  say(`installing Debian packages for tests: ${missing.join(" ")}`);
  try {
    await installDebianPackages(missing, say);
  } catch (error) {
    say(`Debian packages were not installed, some tests will skip: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Returns the names in debian-packages.txt that are not installed; undefined without dpkg. */
async function missingDebianPackages(): Promise<string[] | undefined> {
  const wanted = parseList(await readFile(LIST, "utf8"));
  let report: string;
  try {
    // dpkg-query exits with 1 if a name is unknown, but prints the others: `; true` keeps its output.
    report = execFileSync(
      "sh",
      [
        "-c",
        `command -v dpkg-query >/dev/null || exit 9; dpkg-query -W -f '\${Status}|\${Package}\\n' "$@" 2>/dev/null; true`,
        "sh",
        ...wanted,
      ],
      {
        encoding: "utf8",
      },
    );
  } catch {
    return undefined;
  }
  const installed = new Set(
    report
      .split("\n")
      .filter((line) => line.startsWith("install ok installed|"))
      .map((line) => line.slice(line.indexOf("|") + 1)),
  );
  return wanted.filter((name) => !installed.has(name));
}

/** Returns the first word of every line that is neither empty nor a comment. */
export function parseList(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.replace(/#.*/, "").trim().split(/\s+/)[0] ?? "")
    .filter((name) => name !== "");
}

async function installDebianPackages(names: readonly string[], say: (line: string) => void): Promise<void> {
  await mkdir(path.dirname(NO_CLUSTER_FILE), { recursive: true });
  await writeFile(NO_CLUSTER_FILE, "create_main_cluster = false\n");
  try {
    await aptGet(["update", "-q"], say);
    await aptGet(["install", "-q", "-y", "--no-install-recommends", ...names], say);
  } finally {
    await rm(NO_CLUSTER_FILE, { force: true });
  }
}

/** Runs apt-get. Rejects with the end of its output, which goes to stderr, and prints a line every few seconds of silence. */
function aptGet(args: readonly string[], say: (line: string) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const started_at_ms = Date.now();
    const ticker = setInterval(
      () => say(`apt-get ${args[0]} … ${Math.round((Date.now() - started_at_ms) / 1000)} s`),
      PROGRESS_INTERVAL_MS,
    );
    const child = spawn("apt-get", ["-o", "DPkg::Lock::Timeout=120", ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      stdio: ["ignore", 2, 2],
      timeout: INSTALL_TIMEOUT_MS,
    });
    child.on("error", (error) => {
      clearInterval(ticker);
      reject(error);
    });
    child.on("exit", (code, signal) => {
      clearInterval(ticker);
      if (code === 0) resolve();
      else reject(new Error(`apt-get ${args[0]} ended with ${signal ?? `exit code ${code}`}`));
    });
  });
}
