import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";

const PROGRESS_INTERVAL_MS = 4_000;
const LOCK_POLL_MS = 500;

/**
 * Runs `npm ci` in `root` if node_modules does not match package-lock.json. Otherwise changes nothing, so that an
 * unprivileged user can run a clone that root installed. Prints only to stderr: stdout belongs to the program.
 *
 * @param {string} root absolute path of the clone
 * @param {boolean} with_dev whether the development dependencies are needed too; the product runs without them
 * @returns {Promise<void>} rejects with a readable message if npm fails
 */
export async function installIfNeeded(root, with_dev) {
  if (isCurrent(root, with_dev)) return;
  refuseOtherPlatforms();
  const unlock = await lockInstall(root);
  try {
    if (!isCurrent(root, with_dev)) await npmCi(root, with_dev);
  } finally {
    unlock();
  }
}

/**
 * Throws on unsupported platforms: the lockfile has no checksums for their packages, so npm would install them unverified.
 *
 * @throws Error with a readable message
 */
function refuseOtherPlatforms() {
  // Without this, the report resolves the host names of network peers, which can take seconds.
  Object.assign(process.report, { excludeNetwork: true });
  const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  const is_supported =
    process.platform === "linux" && /^(x64|arm64)$/.test(process.arch) && report.header.glibcVersionRuntime !== undefined;
  if (is_supported) return;
  throw new Error(
    `Linux with glibc on x64 or arm64 is needed, this is ${process.platform} ${process.arch}: use a container or a virtual machine`,
  );
}

/**
 * Returns whether node_modules contains exactly the packages of package-lock.json. npm writes its hidden lockfile last,
 * so an interrupted install counts as missing. If package-lock.json is newer, compares the contents of both lockfiles,
 * because `git checkout` makes unchanged files look new. Development dependencies may be missing unless they are needed.
 *
 * @param {string} root absolute path of the clone
 * @param {boolean} with_dev
 */
export function isCurrent(root, with_dev) {
  const wanted_path = path.join(root, "package-lock.json");
  const present_path = path.join(root, "node_modules", ".package-lock.json");
  const wanted_stat = fs.statSync(wanted_path, { throwIfNoEntry: false });
  if (!wanted_stat) return true;
  const present_stat = fs.statSync(present_path, { throwIfNoEntry: false });
  if (!present_stat) return false;
  // A newer installation may lack the development dependencies.
  if (!with_dev && present_stat.mtimeMs >= wanted_stat.mtimeMs) return true;
  return holds(readPackages(wanted_path), readPackages(present_path), with_dev);
}

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean, dev?: boolean, devOptional?: boolean }} LockedPackage
 * @param {string} file a package-lock.json
 * @returns {Record<string, LockedPackage>}
 */
function readPackages(file) {
  return JSON.parse(fs.readFileSync(file, "utf8")).packages ?? {};
}

/**
 * Returns whether the installed packages match the lockfile. Optional packages may be missing, because the lockfile
 * also lists those of other platforms, which are never installed.
 *
 * @param {Record<string, LockedPackage>} wanted
 * @param {Record<string, LockedPackage>} present
 * @param {boolean} with_dev
 */
function holds(wanted, present, with_dev) {
  for (const [location, entry] of Object.entries(wanted)) {
    if (!location.startsWith("node_modules/")) continue;
    const found = present[location];
    if (!found && (entry.optional || entry.devOptional || (entry.dev && !with_dev))) continue;
    if (!found || found.version !== entry.version || found.integrity !== entry.integrity) return false;
  }
  return Object.keys(present).every((location) => location in wanted);
}

/**
 * Takes the install lock; waits while another process owns it. Two launchers must not run `npm ci` concurrently, because
 * it begins by removing node_modules.
 *
 * @param {string} root absolute path of the clone
 * @returns {Promise<() => void>} releases the lock
 */
async function lockInstall(root) {
  const lock = path.join(root, ".install.lock");
  let announced_at_ms = 0;
  for (;;) {
    try {
      fs.writeFileSync(lock, String(process.pid), { flag: "wx" });
      return () => fs.rmSync(lock, { force: true });
    } catch (error) {
      const code = /** @type {NodeJS.ErrnoException} */ (error).code;
      if (code === "EACCES" || code === "EROFS" || code === "EPERM") throw new Error(notWritable(root), { cause: error });
      if (code !== "EEXIST") throw error;
    }
    const owner = readOwner(lock);
    if (owner !== undefined && !isAlive(owner)) {
      fs.rmSync(lock, { force: true });
      continue;
    }
    if (Date.now() - announced_at_ms >= PROGRESS_INTERVAL_MS) {
      announced_at_ms = Date.now();
      say(`waiting for another process to install the dependencies (pid ${owner ?? "unknown"}, ${lock})`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
  }
}

/** @param {string} lock */
function readOwner(lock) {
  try {
    const pid = Number(fs.readFileSync(lock, "utf8"));
    return Number.isInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}

/**
 * @param {string} root
 * @param {boolean} with_dev
 */
async function npmCi(root, with_dev) {
  const started_at_ms = Date.now();
  const seconds = () => Math.round((Date.now() - started_at_ms) / 1000);
  const args = ["ci", ...(with_dev ? [] : ["--omit=dev"])];
  say(`installing dependencies (npm ${args.join(" ")}), once per clone`);
  const ticker = setInterval(() => say(`still installing dependencies, ${seconds()} s`), PROGRESS_INTERVAL_MS);
  const cache = writableCache();
  try {
    await runNpm(root, args, cache.env);
  } finally {
    clearInterval(ticker);
    cache.remove();
  }
  say(`dependencies installed in ${seconds()} s`);
}

/**
 * Runs `npm ci` with the npm whose `npm run` started this process, otherwise with the one in PATH. A different npm would
 * read a different configuration.
 *
 * @param {string} root
 * @param {readonly string[]} command the command of npm with its options
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<void>}
 */
function runNpm(root, command, env) {
  const script = process.env.npm_execpath;
  const from_script = script !== undefined && path.basename(script) === "npm-cli.js";
  const args = [...command, "--no-audit", "--no-fund", "--loglevel=error"];
  const child = from_script
    ? spawn(process.execPath, [script, ...args], { cwd: root, env, stdio: ["ignore", 2, 2] })
    : spawn("npm", args, { cwd: root, env, stdio: ["ignore", 2, 2] });
  return new Promise((resolve, reject) => {
    child.on("error", (cause) => reject(new Error("npm could not be started: install npm, or put it in PATH", { cause })));
    child.on("exit", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`npm ci failed (${signal ?? `exit code ${code}`}) in ${root}: see its message above`));
    });
  });
}

/**
 * Returns the environment for npm. A user without a writable home directory (many CI runners) gets a temporary cache, which
 * `remove` deletes.
 */
function writableCache() {
  const env = { ...process.env };
  // `npm run` passes its options on as variables, which npm would apply here: `npm start -w x` must not install only x.
  for (const name of Object.keys(env)) if (/^npm_config_(workspaces?|global|omit|include|dry_run)$/i.test(name)) delete env[name];
  // `npm run` passes on the path of its cache even if it is below a home directory that does not exist.
  if (canWrite(env.npm_config_cache ?? path.join(os.homedir(), ".npm"))) return { env, remove: () => {} };
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-npm-cache-"));
  env.npm_config_cache = directory;
  return { env, remove: () => fs.rmSync(directory, { recursive: true, force: true }) };
}

/**
 * Returns whether this user may write to a directory or create it.
 *
 * @param {string} directory
 */
function canWrite(directory) {
  let existing = path.resolve(directory);
  while (!fs.existsSync(existing) && existing !== path.dirname(existing)) existing = path.dirname(existing);
  try {
    fs.accessSync(existing, fs.constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} root */
function notWritable(root) {
  return `the dependencies in ${root} are missing or out of date and this user may not write there: run "npm ci" as its owner`;
}

/** @param {string} line */
function say(line) {
  process.stderr.write(`roamfleet: ${line}\n`);
}
