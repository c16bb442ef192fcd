import { Visitor } from "oxc-parser";
import { type Finding, lineAt, packageOf, type SourceFile } from "./source.ts";

// Product code receives time, randomness and settings as arguments, so that tests control them.
const TIMERS = new Set(["setTimeout", "setInterval"]);
const TIMER_MODULES = new Set(["node:timers", "node:timers/promises", "timers", "timers/promises"]);
const USE_CLOCK = "take it from the Clock that is passed in";
const USE_CONFIG = "read the environment in the package's config.ts only";

// `rf` is one command on a person's terminal: it may use timers directly, but not read the time.
const TIMERS_ALLOWED = new Set(["cli"]);

// Code that runs in a browser uses the browser's time.
const IN_BROWSERS = /^packages\/(dashboard|sdk\/src\/browser)\//;

/** Finds product code that reads time, timers, randomness or the environment directly. */
export function findAmbient(files: readonly SourceFile[]): Finding[] {
  return files.filter((file) => file.is_product && packageOf(file.path) !== "clock" && !IN_BROWSERS.test(file.path)).flatMap(ambientIn);
}

function ambientIn({ path, text, program }: SourceFile): Finding[] {
  const findings: Finding[] = [];
  const report = (start: number, message: string): number => findings.push({ file: path, line: lineAt(text, start), message });
  const timers_allowed = TIMERS_ALLOWED.has(packageOf(path) ?? "");
  const is_config = /^packages\/[^/]+\/src\/config\.ts$/.test(path);
  const member = (object: string, property: string, start: number): void => {
    const name = `${object}.${property}`;
    if (name === "process.env" && !is_config) report(start, `process.env: ${USE_CONFIG}`);
    if (name === "Date.now" || name === "Math.random" || name === "crypto.randomUUID" || name === "performance.now") {
      report(start, `${name}: ${USE_CLOCK}`);
    }
    if (object === "globalThis" && TIMERS.has(property) && !timers_allowed) report(start, `${name}: ${USE_CLOCK}`);
    if (name === "AbortSignal.timeout" && !timers_allowed) report(start, `${name}: ${USE_CLOCK}`);
  };
  new Visitor({
    NewExpression({ callee, arguments: args, start }) {
      if (callee.type === "Identifier" && callee.name === "Date" && args.length === 0) report(start, `new Date(): ${USE_CLOCK}`);
    },
    CallExpression({ callee, start }) {
      if (callee.type !== "Identifier") return;
      if (callee.name === "Date") report(start, `Date(): ${USE_CLOCK}`);
      if (TIMERS.has(callee.name) && !timers_allowed) report(start, `${callee.name}: ${USE_CLOCK}`);
    },
    MemberExpression({ object, property, computed, start }) {
      if (object.type === "Identifier" && property.type === "Identifier" && !computed) member(object.name, property.name, start);
    },
    ImportDeclaration({ source, specifiers, importKind, start }) {
      if (importKind === "type") return;
      if (TIMER_MODULES.has(source.value) && !timers_allowed) report(start, `${source.value}: ${USE_CLOCK}`);
      const names = new Set(specifiers.map((one) => (one.type === "ImportSpecifier" && "name" in one.imported ? one.imported.name : "")));
      if (source.value === "node:crypto" && names.has("randomUUID")) report(start, `randomUUID: ${USE_CLOCK}`);
      if (source.value === "node:process" && names.has("env") && !is_config) report(start, `env: ${USE_CONFIG}`);
    },
  }).visit(program);
  return findings;
}
