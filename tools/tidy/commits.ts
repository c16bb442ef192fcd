import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import type { Finding } from "./source.ts";

/** Commits up to this one are not checked: their subjects cannot change any more. */
const CHECKED_SINCE = "d4c36ebfa906c5c49dfbe0dea6804a14498b9115";
const SUBJECT_CHARACTERS_MAX = 72;
const FORM = /^(?<area>[a-z][\w.-]*(?:, [a-z][\w.-]*)*): (?<verb>[a-z][\w-]*) \S/;
/** First words that are no verb, and endings of verbs that are not imperative. */
const NOT_A_VERB = /^(?:an?|the|what|who|when|where|one|each|every|some|those|both|no|it|they)$|(?:[^e]ed|[^r]ing|[^s]s)$/;
/** Imperative verbs with an ending that NOT_A_VERB matches. */
const IMPERATIVE = new Set(["embed", "shed", "speed", "swing", "fling", "alias", "focus", "bias"]);

/** Finds subjects of new commits that are too long or not `area: imperative verb object`. Without git or its history, none are checked. */
export function findBadSubjectsInLog(directory: string): Finding[] {
  if (!existsSync(path.join(directory, ".git"))) return [];
  const git = (...args: string[]): string | undefined => {
    try {
      return execFileSync("git", ["-C", directory, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    } catch {
      return undefined;
    }
  };
  // A shallow clone does not contain CHECKED_SINCE: check only the newest commit.
  const range = git("merge-base", "--is-ancestor", CHECKED_SINCE, "HEAD") === undefined ? ["-1"] : [`${CHECKED_SINCE}..HEAD`];
  return findBadSubjects((git("log", "--no-merges", "--format=%h %s", ...range) ?? "").split("\n").filter((line) => line !== ""));
}

/** `lines` are abbreviated hashes with the subject after a space. */
export function findBadSubjects(lines: readonly string[]): Finding[] {
  return lines.flatMap((line) => {
    const [hash = "", ...words] = line.split(" ");
    const subject = words.join(" ");
    return problemsOf(subject).map((problem) => ({ file: `commit ${hash}`, line: 1, message: `${problem}: ${subject}` }));
  });
}

function problemsOf(subject: string): string[] {
  const { verb } = FORM.exec(subject)?.groups ?? {};
  return [
    ...(subject.length > SUBJECT_CHARACTERS_MAX ? [`${subject.length} characters, at most ${SUBJECT_CHARACTERS_MAX}`] : []),
    ...(verb === undefined ? ["not `area: imperative verb object`"] : []),
    ...(verb !== undefined && NOT_A_VERB.test(verb) && !IMPERATIVE.has(verb) ? [`"${verb}" is not an imperative verb`] : []),
    ...(subject.endsWith(".") ? ["ends with a full stop"] : []),
  ];
}
