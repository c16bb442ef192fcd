import { readFileSync } from "node:fs";
import path from "node:path";

/** The commit from which a bundle was built, or "" if unknown. Defined only in bundles. */
declare const ROAMFLEET_COMMIT: string | undefined;
/** The date of that commit, `2026-11-23T22:53:00Z`, or "" if unknown. Defined only in bundles. */
declare const ROAMFLEET_BUILT_AT: string | undefined;

const COMMIT_CHARACTERS = 7;
const DATE_CHARACTERS = "2026-11-23".length;

/**
 * Returns the output of `--version`: `0.1.0 (commit abc1234, 2026-11-23)` in a bundle, `0.1.0 (commit abc1234, from source)` in a clone, and
 * `0.1.0` if the commit is unknown.
 */
export function describeVersion(version: string): string {
  const is_bundle = typeof ROAMFLEET_COMMIT === "string";
  const commit = is_bundle ? ROAMFLEET_COMMIT : readCommit(path.resolve(import.meta.dirname, "../../.."));
  if (!commit) return version;
  const date = typeof ROAMFLEET_BUILT_AT === "string" ? ROAMFLEET_BUILT_AT.slice(0, DATE_CHARACTERS) : "";
  const origin = is_bundle ? date : "from source";
  return `${version} (commit ${commit.slice(0, COMMIT_CHARACTERS)}${origin && `, ${origin}`})`;
}

/** Returns the checked-out commit of a clone or worktree; undefined if not found. Reads files, because starting git takes 5 ms. */
export function readCommit(clone: string): string | undefined {
  try {
    const git = gitDirectory(clone);
    const head = readFileSync(path.join(git, "HEAD"), "utf8").trim();
    const ref = /^ref: (refs\/\S+)$/.exec(head)?.[1];
    if (ref === undefined) return asCommit(head);
    const common = path.resolve(git, readIfThere(path.join(git, "commondir"))?.trim() ?? ".");
    return asCommit(readIfThere(path.join(common, ref))?.trim()) ?? packedCommit(readIfThere(path.join(common, "packed-refs")) ?? "", ref);
  } catch {
    return undefined;
  }
}

/** Returns the git directory of a clone. In a worktree or submodule, `.git` is a file that contains the path of this directory. */
function gitDirectory(clone: string): string {
  const place = path.join(clone, ".git");
  try {
    const named = /^gitdir: (.+)$/m.exec(readFileSync(place, "utf8"))?.[1];
    return path.resolve(clone, named ?? ".git");
  } catch {
    return place;
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

const packedCommit = (packed: string, ref: string): string | undefined =>
  asCommit(
    packed
      .split("\n")
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(" ")[0],
  );

const asCommit = (text: string | undefined): string | undefined => (/^[0-9a-f]{40,64}$/.test(text ?? "") ? text : undefined);
