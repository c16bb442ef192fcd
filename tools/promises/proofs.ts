import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "../../bin/launch.mjs";

/** Returns the proofs in the tests, each with its file and the promise's number. */
export function proofsInTests(): { file: string; promise: number }[] {
  const files = globSync("{tests,packages}/**/*.test.ts", { cwd: root, exclude: (name) => name === "node_modules" || name === "dist" });
  return files.flatMap((file) =>
    Array.from(readFileSync(path.join(root, file), "utf8").matchAll(/provePromise\(\s*\w+,\s*(\d+)/g), ([, number]) => ({
      file,
      promise: Number(number),
    })),
  );
}
