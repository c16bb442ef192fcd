import { parseArgs } from "node:util";
import type { Row } from "./row.ts";

export interface BenchOptions {
  /** Rows to measure, in the order of the table; empty: show earlier results. */
  rows: readonly Row[];
  /** Results to compare with: `latest`, `baseline` or a file. Several: kept runs that are compared with each other. */
  compare: readonly string[];
  json: boolean;
  out: string | undefined;
  profile: string | undefined;
  /** Robots in the database, for the growth rows. */
  growth: readonly number[];
  quick: boolean;
  write: boolean;
  help: boolean;
}

const GROWTH = [10_000, 100_000];
const GROWTH_QUICK = [10_000, 20_000];
const GROWTH_FULL = [10_000, 100_000, 1_000_000];

/** Throws an Error with a message for the user. */
export function readOptions(args: readonly string[], all: readonly Row[]): BenchOptions {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    args: args.flatMap((arg, i) => (arg === "--compare" && (args[i + 1] ?? "--").startsWith("--") ? ["--compare", ""] : [arg])),
    options: {
      only: { type: "string", multiple: true },
      skip: { type: "string", multiple: true, default: [] },
      full: { type: "boolean", default: false },
      growth: { type: "string" },
      compare: { type: "string" },
      json: { type: "boolean", default: false },
      out: { type: "string" },
      profile: { type: "string" },
      quick: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const { only, skip, full, growth, compare: first, out, profile, ...rest } = values;
  if (first === undefined && positionals.length > 0) throw new Error(`unknown argument ${positionals.join(" ")}`);
  const unknown = [...(only ?? []), ...skip].filter((name) => !all.some((row) => row.name === name));
  if (unknown.length > 0) throw new Error(`no row is called ${unknown.join(", ")}; known are ${all.map(({ name }) => name).join(", ")}`);
  // Showing results is the default; measuring needs a selection or --write.
  const only_looks = first !== undefined && only === undefined && !full && !rest.write && !rest.quick && skip.length === 0;
  if (positionals.length > 0 && !only_looks) throw new Error("--compare with several files measures no rows");
  const compare = first === "" ? (only_looks ? "baseline" : "latest") : first;
  const wanted = (row: Row): boolean => (only === undefined ? full || row.only_full !== true : only.includes(row.name));
  return {
    ...rest,
    out,
    profile,
    rows: only_looks ? [] : all.filter((row) => wanted(row) && !skip.includes(row.name)),
    compare: compare === undefined ? [] : [compare, ...positionals],
    growth: growth === undefined ? (full ? GROWTH_FULL : rest.quick ? GROWTH_QUICK : GROWTH) : readSizes(growth),
  };
}

/** `10k,1M` */
function readSizes(text: string): number[] {
  const sizes = text.split(",").map((one) => {
    const [, digits, unit] = /^(\d+)([kM]?)$/.exec(one.trim()) ?? [];
    if (digits === undefined) throw new Error(`--growth takes numbers such as 10k,100k,1M, not ${one}`);
    return Number(digits) * (unit === "M" ? 1_000_000 : unit === "k" ? 1_000 : 1);
  });
  if (sizes.length < 2 || sizes.some((size, i) => size <= (sizes[i - 1] ?? 0)))
    throw new Error("--growth takes two sizes or more, the smallest first");
  return sizes;
}
