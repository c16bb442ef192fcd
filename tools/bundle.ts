import { execFileSync } from "node:child_process";
import { chmod, rm } from "node:fs/promises";
import path from "node:path";
import { build, type Plugin } from "program-bundler";
import { readCommit } from "../packages/protocol/src/version.ts";
import { lazyBuiltins } from "./lazy-builtins.ts";
import { namedExports } from "./named-exports.ts";

const CLONE = path.resolve(import.meta.dirname, "..");
const PROGRAM_MODE = 0o755;
const GIT_TIMEOUT_MS = 10_000;

export interface BundleOptions {
  /** Name of the program. */
  name: string;
  /** Path of its TypeScript entry file. */
  entry: string;
  /** Output directory, which is recreated. */
  directory: string;
  plugins?: readonly Plugin[];
  /** Flags of Node in the program's first line. */
  node_flags?: readonly string[];
  /** A module for import instead of a program. */
  is_library?: boolean;
}

export interface Bundle {
  /** Path of the program. */
  program: string;
  /** Names of the npm packages that the bundle contains, sorted. */
  packages: string[];
}

/** Bundles a program for publishing, with separate files for parts that are loaded later. */
export async function bundleProgram({
  name,
  entry,
  directory,
  plugins = [],
  node_flags = [],
  is_library = false,
}: BundleOptions): Promise<Bundle> {
  await rm(directory, { recursive: true, force: true });
  const commit = readCommit(CLONE);
  const { metafile } = await build({
    entryPoints: { [name]: entry },
    outdir: directory,
    outExtension: { ".js": ".mjs" },
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    minify: true,
    metafile: true,
    format: "esm",
    platform: "node",
    target: "node24",
    legalComments: "linked",
    // Optional native parts of ws, which works without them.
    external: ["bufferutil", "utf-8-validate"],
    define: {
      ROAMFLEET_COMMIT: JSON.stringify(commit ?? ""),
      ROAMFLEET_BUILT_AT: JSON.stringify(commit === undefined ? "" : (readCommitDate(CLONE, commit) ?? "")),
    },
    plugins: [...plugins, lazyBuiltins, namedExports],
    banner: is_library ? {} : { js: `#!/usr/bin/env ${node_flags.length === 0 ? "node" : ["-S", "node", ...node_flags].join(" ")}` },
    logLevel: "warning",
  });
  const program = path.join(directory, `${name}.mjs`);
  if (!is_library) await chmod(program, PROGRAM_MODE);
  return { program, packages: packagesOf(Object.keys(metafile.inputs)) };
}

/** Returns the names of the packages that contain the files. */
function packagesOf(files: readonly string[]): string[] {
  const names = files.map((file) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  return [...new Set(names.filter((name) => name !== undefined))].toSorted();
}

/** Returns the date of a commit as ISO 8601 in UTC, `2026-11-23T22:53:00Z`; undefined without git or without the commit. */
export function readCommitDate(clone: string, commit: string): string | undefined {
  try {
    const seconds = execFileSync("git", ["show", "--no-patch", "--format=%ct", commit], {
      cwd: clone,
      encoding: "utf8",
      timeout: GIT_TIMEOUT_MS,
      stdio: ["ignore", "pipe", "ignore"],
    });
    return new Date(Number(seconds) * 1_000).toISOString().replace(".000Z", "Z");
  } catch {
    return undefined;
  }
}
