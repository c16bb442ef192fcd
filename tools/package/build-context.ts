import { execFile } from "node:child_process";
import { promisify } from "node:util";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import metadata from "../../package.json" with { type: "json" };
import { readCommit } from "../../packages/protocol/src/version.ts";
import { readCommitDate } from "../bundle.ts";

const COMMAND_TIMEOUT_MS = 300_000;
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

/** The names of an architecture in Debian, in Node and in the GNU tools. */
export interface Architecture {
  deb: "amd64" | "arm64";
  node: "x64" | "arm64";
  /** Prefix of the GNU tools that read programs of this architecture. */
  gnu: string;
}

export const ARCHITECTURES: readonly Architecture[] = [
  { deb: "amd64", node: "x64", gnu: "x86_64-linux-gnu" },
  { deb: "arm64", node: "arm64", gnu: "aarch64-linux-gnu" },
];

/** Settings that all packages of one build share. */
export interface BuildContext {
  version: string;
  /** The commit, or "unknown" outside of a clone. */
  commit: string;
  /** Date of the commit, ISO 8601 in UTC. All files in packages have this time. */
  built_at: string;
  /** Compresses fast instead of well, for tests. */
  is_fast: boolean;
  /** Directory for intermediate files. */
  scratch: string;
}

/** Returns the context of a build of the checked-out commit. Outside of a clone, the time is SOURCE_DATE_EPOCH or 1980. */
export function readContext(scratch: string, is_fast: boolean, env: NodeJS.ProcessEnv = process.env): BuildContext {
  const commit = readCommit(root);
  const named = env.SOURCE_DATE_EPOCH === undefined ? undefined : isoSeconds(Number(env.SOURCE_DATE_EPOCH));
  const built_at = named ?? (commit === undefined ? undefined : readCommitDate(root, commit)) ?? "1980-01-01T00:00:00Z";
  return { version: metadata.version, commit: commit ?? "unknown", built_at, is_fast, scratch };
}

const isoSeconds = (seconds: number): string => new Date(seconds * 1_000).toISOString().replace(".000Z", "Z");

/** Seconds since 1970 of the time that all files in packages have. */
export const epochOf = ({ built_at }: BuildContext): number => Date.parse(built_at) / 1_000;

/** An error that the user can correct. It is printed without a stack. */
export class PackagingError extends Error {}

/** Runs a program of the build machine and returns its output. Throws PackagingError with the program's message if it fails. */
export async function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC", ...options.env };
  try {
    const { stdout } = await promisify(execFile)(command, args, {
      ...options,
      env,
      timeout: COMMAND_TIMEOUT_MS,
      maxBuffer: OUTPUT_BYTES_MAX,
    });
    return stdout;
  } catch (error) {
    const { code, stderr, message } = error as { code?: string | number; stderr?: string; message: string };
    if (code === "ENOENT") throw new PackagingError(`${path.basename(command)} is not installed: ${packageOf(command)}`, { cause: error });
    throw new PackagingError(`${command} failed: ${stderr?.trim() || message}`, { cause: error });
  }
}

/** Returns how to install a missing program. */
function packageOf(command: string): string {
  const gnu = /^(x86_64|aarch64)-linux-gnu-strip$/.exec(command)?.[1];
  if (gnu !== undefined) return `apt-get install binutils binutils-${gnu.replace("_", "-")}-linux-gnu`;
  return `install the Debian package that contains it`;
}
