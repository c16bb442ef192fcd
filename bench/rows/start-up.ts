import { spawnSync } from "node:child_process";
import { buildCli } from "../../packages/cli/build.ts";
import { sample } from "../measure.ts";
import type { Row } from "../row.ts";

const ROUNDS = 61;

function milliseconds(args: readonly string[]): number {
  const started = performance.now();
  const { status } = spawnSync(process.execPath, args, { stdio: "ignore" });
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}`);
  return performance.now() - started;
}

export const startUp: Row = {
  name: "rf-start-up",
  area: "programs",
  about: "the bundled `rf --help`; compared with `node -e 0`",
  run: async () => {
    const file = await buildCli();
    const [ours, limit]: [number[], number[]] = [[], []];
    for (let i = 0; i <= ROUNDS; i += 1) {
      const a = milliseconds([file, "--help"]);
      const b = milliseconds(["-e", "0"]);
      if (i === 0) continue; // fills the page cache
      ours.push(a);
      limit.push(b);
    }
    const [us, them] = [sample(ours), sample(limit)];
    const ratio = us.median / them.median;
    return { ours: us, limit: them, unit: "ms", ratio, goal: "≤ 1.5", met: ratio <= 1.5 };
  },
};
