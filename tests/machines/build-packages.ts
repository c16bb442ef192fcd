import { execFileSync } from "node:child_process";
import { root } from "../../bin/launch.mjs";

const BUILD_MS_MAX = 400_000;

/** Builds packages of this clone into a directory, with fast compression. `flags`: those of `npm run package`, such as `--only agent`. */
export function buildPackages(directory: string, ...flags: string[]): void {
  const words = ["tools/package/main.ts", "--fast", ...flags, "--out", directory];
  execFileSync(process.execPath, words, { cwd: root, stdio: ["ignore", "ignore", "pipe"], timeout: BUILD_MS_MAX });
}
