import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { pathToFileURL } from "node:url";
import { ROOT } from "../processes/process.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

const APART_MS = [0, 300_000, -300_000];

test(
  "three nodes with clocks five minutes apart dispatch scheduled deployments once and stay alive",
  { skip: skipUnlessFull(), timeout: 400_000 },
  async (t) => {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-clocks-"));
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    const file = (node: number): string => path.join(directory, `offset-${node}`);
    const set = (offsets: readonly number[]): void => offsets.forEach((offset, node) => writeFileSync(file(node), String(offset)));
    set([0, 0, 0]);
    const preload = pathToFileURL(path.join(ROOT, "tests/processes/shifted-clock.ts")).href;
    const env = (node: number): Record<string, string> => ({ SHIFTED_CLOCK_FILE: file(node), NODE_OPTIONS: `--import=${preload}` });
    await using rig = await FaultRig.start({ env });
    const figures = await underFault(t, rig, { begin: () => set(APART_MS), end: () => set([0, 0, 0]) });
    provePromise(t, 18, `clocks of three nodes set 5 minutes back and forth under load: ${figures}`);
  },
);
