import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { Visitor } from "oxc-parser";
import { type Finding, lineAt, type SourceFile } from "./source.ts";

/** Folders whose prose contains no ruled-out words. Add a folder once it is clean. */
export const CLEAN_FOLDERS = [
  "bench/",
  "deploy/",
  "packages/agent/src/commands/",
  "packages/agent/src/config-file/",
  "packages/agent/src/configs/",
  "packages/agent/src/deployments/",
  "packages/agent/src/disk/",
  "packages/agent/src/health/",
  "packages/agent/src/http/",
  "packages/agent/src/identity/",
  "packages/agent/src/link/",
  "packages/agent/src/local/",
  "packages/agent/src/logs/",
  "packages/agent/src/ros/",
  "packages/agent/src/runtime/",
  "packages/agent/src/safety/",
  "packages/agent/src/signing/",
  "packages/agent/src/spool/",
  "packages/agent/src/streams/camera/",
  "packages/agent/src/streams/forward/",
  "packages/agent/src/streams/topics/",
  "packages/agent/src/testing/",
  "packages/cli/",
  "packages/clock/",
  "packages/dashboard/",
  "packages/protocol/",
  "packages/sdk/",
  "packages/server/src/doctor/",
  "packages/server/src/engines/",
  "packages/server/src/features/access/",
  "packages/server/src/features/audit/",
  "packages/server/src/features/configs/",
  "packages/server/src/features/dashboard/",
  "packages/server/src/features/deployments/",
  "packages/server/src/features/enrollment/",
  "packages/server/src/features/events/",
  "packages/server/src/features/fleets/",
  "packages/server/src/features/health/",
  "packages/server/src/features/logs/",
  "packages/server/src/features/operation/",
  "packages/server/src/features/orgs/",
  "packages/server/src/features/overview/",
  "packages/server/src/features/reference/",
  "packages/server/src/features/releases/",
  "packages/server/src/features/report/",
  "packages/server/src/features/robots/",
  "packages/server/src/features/shells/",
  "packages/server/src/features/signing/",
  "packages/server/src/features/sites/",
  "packages/server/src/features/streams/",
  "packages/server/src/features/testing/",
  "packages/server/src/features/timeline/",
  "packages/server/src/features/tokens/",
  "packages/server/src/features/users/",
  "packages/server/src/features/views/",
  "packages/server/src/kernel/",
  "packages/server/src/link/",
  "packages/swarm/",
  "tests/authorization/",
  "tests/containers/",
  "tests/crash/",
  "tests/dashboard/",
  "tests/deploy/",
  "tests/engine/",
  "tests/faults/",
  "tests/harness/",
  "tests/hostile/",
  "tests/processes/",
  "tests/promises/",
  "tests/snapshots/",
  "tests/spec/",
  "tests/transcripts/",
  "tools/",
] as const;

/** Files that quote the ruled-out words: this list, its test, and a file with the system account `nobody`. */
const QUOTING = new Set(["tools/tidy/words.ts", "tools/tidy/words.test.ts", "packages/server/src/engines/db/embedded/run-as.ts"]);

/**
 * Ruled-out words, each with a plain replacement. Words with legitimate uses are not listed: "at once" (concurrent requests), "together" (in total),
 * "apart" (two clocks five minutes apart), "holds" (a lock), "knows", "stands", "says" and "looks at" (in quoted output and names of tests).
 */
const WORDS: Readonly<Record<string, string>> = {
  whoever: "the client, user or process that",
  whom: "which",
  nobody: "no client, user or process",
  somebody: "a user or client",
  everybody: "all users or clients",
  "no one": "no user",
  anew: "again",
  theirs: "the owner's name",
  thereof: "of it",
  "is told": "is notified, receives",
  "are told": "are notified, receive",
  tells: "reports, returns",
  "goes on": "continues",
  "goes back": "rolls back, reverts",
  "called off": "cancelled, aborted",
  "gives back": "releases, reverts",
  "is meant": "is for",
  "by itself": "automatically, alone",
  "of its own": "separate",
  "has its turn": "runs",
  "what is due": "due work",
  "what comes": "the next data",
  "at work": "running, active",
  "is away": "is offline, is unreachable",
  "is well": "is healthy",
  "stands in": "is in, replaces",
};

// A phrase may continue on the next line of a comment.
const RULED_OUT = new RegExp(`\\b(?:${Object.keys(WORDS).join("|").replaceAll(" ", "[\\s*/#]+")})\\b`, "gi");

/** Finds ruled-out words in the comments, strings and JSX texts of sources in `folders`, which must contain none. */
export function findRuledOutWords(files: readonly SourceFile[], folders: readonly string[] = CLEAN_FOLDERS): Finding[] {
  return files.filter(({ path: file }) => isChecked(file, folders)).flatMap((file) => findIn(file.path, proseOf(file)));
}

/** Finds ruled-out words in the Markdown pages of `folders` below `root`. */
export function findRuledOutWordsInPages(root: string, folders: readonly string[] = CLEAN_FOLDERS): Finding[] {
  const pages = globSync(
    folders.map((folder) => `${folder}**/*.md`),
    { cwd: root, exclude: (name) => name === "node_modules" },
  );
  return pages.flatMap((page) => findIn(page, readFileSync(path.join(root, page), "utf8")));
}

const isChecked = (file: string, folders: readonly string[]): boolean =>
  !QUOTING.has(file) && folders.some((folder) => file.startsWith(folder));

function findIn(file: string, prose: string): Finding[] {
  return [...prose.matchAll(RULED_OUT)].map(({ 0: found, index }) => {
    const word = found.toLowerCase().replaceAll(/[\s*/#]+/g, " ");
    return { file, line: lineAt(prose, index), message: `"${word}": write ${WORDS[word]}` };
  });
}

/** Returns the text with all code replaced by NUL characters, so that offsets stay the same and words in code do not match. */
function proseOf({ text, program, comments }: SourceFile): string {
  const prose = Array.from({ length: text.length }, (_, at) => (/\s/.test(text.charAt(at)) ? text.charAt(at) : "\0"));
  const keep = ({ start, end }: { start: number; end: number }): void => {
    for (let at = start; at < end; at += 1) prose[at] = text.charAt(at);
  };
  for (const comment of comments) keep(comment);
  new Visitor({
    Literal: (node) => {
      if (typeof node.value === "string" || "regex" in node) keep(node);
    },
    TemplateElement: keep,
    JSXText: keep,
  }).visit(program);
  return prose.join("");
}
