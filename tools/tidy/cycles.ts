import { readFileSync } from "node:fs";
import path from "node:path";
import { Visitor } from "oxc-parser";
import { root } from "../../bin/launch.mjs";
import { type Finding, lineAt, type SourceFile } from "./source.ts";

interface Edge {
  from: string;
  to: string;
  line: number;
}

/** Finds import cycles, including type imports and dynamic imports: no file of a cycle can be understood before the others. */
export function findCycles(files: readonly SourceFile[], exports_of: (name: string) => Record<string, string> = readExports): Finding[] {
  const edges = new Map(files.map((file) => [file.path, edgesOf(file, exports_of)]));
  const findings: Finding[] = [];
  const done = new Set<string>();
  for (const start of edges.keys()) {
    const trail: string[] = [];
    const visit = (at: string): void => {
      trail.push(at);
      for (const edge of edges.get(at) ?? []) {
        const seen_at = trail.indexOf(edge.to);
        if (seen_at !== -1) {
          findings.push({ file: at, line: edge.line, message: `import cycle: ${[...trail.slice(seen_at), edge.to].join(" → ")}` });
        } else if (!done.has(edge.to)) visit(edge.to);
      }
      trail.pop();
      done.add(at);
    };
    if (!done.has(start)) visit(start);
  }
  return findings;
}

function edgesOf(file: SourceFile, exports_of: (name: string) => Record<string, string>): Edge[] {
  const edges: Edge[] = [];
  const add = (source: { value: unknown; start: number } | null): void => {
    if (source === null || typeof source.value !== "string") return;
    const to = resolve(file.path, source.value, exports_of);
    if (to !== undefined) edges.push({ from: file.path, to, line: lineAt(file.text, source.start) });
  };
  new Visitor({
    ImportDeclaration: ({ source }) => add(source),
    ExportNamedDeclaration: ({ source }) => add(source),
    ExportAllDeclaration: ({ source }) => add(source),
    TSImportType: ({ source }) => add(source),
    ImportExpression: ({ source }) => add(source.type === "Literal" ? source : null),
  }).visit(file.program);
  return edges;
}

/** Returns the path of an imported file in the repository; undefined for other packages. */
function resolve(from: string, specifier: string, exports_of: (name: string) => Record<string, string>): string | undefined {
  if (specifier.startsWith(".")) return path.posix.join(path.posix.dirname(from), specifier);
  const [, name, rest] = /^@roamfleet\/([^/]+)(\/.+)?$/.exec(specifier) ?? [];
  if (name === undefined) return undefined;
  const target = exports_of(name)[`.${rest ?? ""}`];
  return target === undefined ? undefined : path.posix.join("packages", name, target);
}

const known_exports = new Map<string, Record<string, string>>();

function readExports(name: string): Record<string, string> {
  let found = known_exports.get(name);
  if (found === undefined) {
    const manifest = JSON.parse(readFileSync(path.join(root, "packages", name, "package.json"), "utf8")) as {
      exports?: Record<string, string>;
    };
    found = manifest.exports ?? {};
    known_exports.set(name, found);
  }
  return found;
}
