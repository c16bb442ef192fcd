import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { type Comment, parseSync, type Program } from "oxc-parser";
import { root } from "../../bin/launch.mjs";

/** A violation of a rule. `line` counts from 1. */
export interface Finding {
  file: string;
  line: number;
  message: string;
}

/** A parsed source file; `path` is relative to the repository, with forward slashes. */
export interface SourceFile {
  path: string;
  text: string;
  program: Program;
  comments: readonly Comment[];
  /** Code that ships, as opposed to tests, tools and benchmarks. */
  is_product: boolean;
}

/** Parses one file; throws when it is not TypeScript. */
export function parseSource(file: string, text: string): SourceFile {
  const { program, errors, comments } = parseSync(file, text);
  const error = errors[0];
  if (error) throw new Error(`${file} does not parse: ${error.message}`);
  return { path: file, text, program, comments, is_product: isProduct(file) };
}

/** Reads every TypeScript and JavaScript file of the repository. Missing folders are ignored. */
export function readSources(): SourceFile[] {
  const found = globSync("{packages/*/src,tests,tools,bench,bin}/**/*.{ts,tsx,mjs}", { cwd: root, exclude: (name) => IGNORED.has(name) });
  return found.toSorted().map((file) => parseSource(file, readFileSync(path.join(root, file), "utf8")));
}

const IGNORED = new Set(["node_modules", "dist"]);

function isProduct(file: string): boolean {
  return /^packages\/[^/]+\/src\//.test(file) && !isTest(file);
}

export function isTest(file: string): boolean {
  return /(?:\.test|-suite)\.tsx?$/.test(file) || file.includes("/testing/") || file.startsWith("tests/");
}

/** Name of the package that a product file belongs to, `server` for packages/server/src/main.ts. */
export function packageOf(file: string): string | undefined {
  return /^packages\/([^/]+)\//.exec(file)?.[1];
}

/** Line of an offset in a text, counted from 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < offset; at = text.indexOf("\n", at + 1)) line += 1;
  return line;
}

/** Number of lines from one offset to another, both included. */
export function lineCount(text: string, start: number, end: number): number {
  return lineAt(text, end) - lineAt(text, start) + 1;
}
