import { readFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { root } from "../../bin/launch.mjs";
import { ensureBuilt } from "../../packages/server/src/features/dashboard/build.ts";
import { sample } from "../measure.ts";
import type { Row } from "../row.ts";

const GOAL_KB = 250;

interface Chunk {
  file: string;
  imports?: readonly string[];
}

/** The dashboard's entry script and its static imports. The chunk of the page that is shown is loaded afterwards. */
function firstChunks(manifest: Readonly<Record<string, Chunk>>, name: string, found = new Set<string>()): Set<string> {
  const chunk = manifest[name];
  if (chunk === undefined) throw new Error(`the build has no ${name}`);
  if (found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const imported of chunk.imports ?? []) firstChunks(manifest, imported, found);
  return found;
}

export const dashboardFirstLoad: Row = {
  name: "dashboard-first-load",
  area: "dashboard",
  about: "gzipped JavaScript that a browser loads before the first page's own chunk",
  run: async () => {
    const directory = await ensureBuilt({ clone: root, clock: systemClock, log: createLog({ level: "warn" }) });
    const manifest = JSON.parse(await readFile(path.join(directory, ".vite", "manifest.json"), "utf8")) as Record<string, Chunk>;
    let bytes = 0;
    for (const file of firstChunks(manifest, "index.html"))
      bytes += gzipSync(await readFile(path.join(directory, file)), { level: 9 }).length;
    const kilobytes = bytes / 1_000;
    return {
      ours: sample([kilobytes]),
      unit: "kB",
      figure: `${kilobytes.toFixed(0)} kB`,
      goal: `≤ ${GOAL_KB} kB`,
      met: kilobytes <= GOAL_KB,
    };
  },
};
