import process from "node:process";
import { launch } from "../bin/launch.mjs";

const [entry, ...args] = process.argv.slice(2);
if (entry === undefined) {
  process.stderr.write("usage: node tools/run.mjs FILE.ts [ARGUMENT…]\n");
  process.exitCode = 2;
} else {
  await launch(entry, args);
}
