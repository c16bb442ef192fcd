import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { proofsInTests } from "./proofs.ts";

const IMPORTED = /\b(?:from|import)\s*\(?\s*"([^"]+)"/g;
/** Matches the path of a program that a test starts, relative to the repository or to the test's folder. */
const STARTED = /"([\w/.-]+\.ts)"/g;
const MAY_START = /^tests\/|\/testing\//;

/** Returns the files that differ from the last commit that this branch shares with main. */
export function changedFiles(): string[] {
  const base = git("merge-base", "HEAD", "main").trim();
  return [...git("diff", "--name-only", base).split("\n"), ...git("ls-files", "--others", "--exclude-standard").split("\n")].filter(
    Boolean,
  );
}

const git = (...args: string[]): string => execFileSync("git", args, { cwd: root, encoding: "utf8" });

/** Returns the numbers of the promises whose tests use one of these files, directly or in a program that they start. */
export function promisesConcerned(files: readonly string[]): number[] {
  const known = new Map<string, readonly string[]>();
  const concerned = proofsInTests().filter(({ file }) => {
    const used = filesOf(file, known);
    const packages = new Set(Array.from(used, packageOf));
    return files.some((changed) => used.has(changed) || (isData(changed) && packages.has(packageOf(changed))));
  });
  return [...new Set(concerned.map(({ promise }) => promise))].toSorted((a, b) => a - b);
}

/** Whether a file is a migration or a package.json. No file imports these, so a change affects all tests that use the package. */
const isData = (file: string): boolean => /^packages\/.*\.(sql|json)$/.test(file);

const packageOf = (file: string): string => file.split("/").slice(0, 2).join("/");

/** Returns the files that a test uses, including the test itself. */
function filesOf(test: string, known: Map<string, readonly string[]>): ReadonlySet<string> {
  const found = new Set<string>();
  const waiting = [test];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    let uses = known.get(file);
    if (uses === undefined) known.set(file, (uses = usesOf(file)));
    waiting.push(...uses);
  }
  return found;
}

function usesOf(file: string): string[] {
  const text = readFileSync(path.join(root, file), "utf8");
  const imported = Array.from(text.matchAll(IMPORTED), ([, name = ""]) => resolve(file, name));
  const started = MAY_START.test(file) ? Array.from(text.matchAll(STARTED), ([, name = ""]) => name) : [];
  const programs = started.map((name) => (/^(packages|tests|tools)\//.test(name) ? name : path.join(path.dirname(file), name)));
  return [...imported, ...programs].filter((used) => /\.(ts|mjs)$/.test(used) && existsSync(path.join(root, used)));
}

/** Returns the path of an imported file in the repository; for a package from elsewhere, its unchanged name. */
function resolve(file: string, name: string): string {
  if (name.startsWith(".")) return path.join(path.dirname(file), name);
  const [, folder, inside = ""] = /^@roamfleet\/([^/]+)(\/.*)?$/.exec(name) ?? [];
  if (folder === undefined) return name;
  const { exports = {} } = JSON.parse(readFileSync(path.join(root, "packages", folder, "package.json"), "utf8")) as {
    exports?: Record<string, string>;
  };
  return path.join("packages", folder, exports[`.${inside}`] ?? "");
}
