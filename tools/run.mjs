import process from "node:process";
import { launch } from "../bin/launch.mjs";

const PARENT_POLL_MS = 500;

const [entry, ...args] = process.argv.slice(2);
if (entry === undefined) {
  process.stderr.write("usage: node tools/run.mjs FILE.ts [ARGUMENT…]\n");
  process.exitCode = 2;
} else {
  if (process.env.npm_lifecycle_event !== undefined) endWithParent();
  await launch(entry, args);
}

/** Ends with npm. It passes on SIGTERM and SIGINT, which arrive because its scripts begin with `exec`; a killed npm passes on nothing. */
function endWithParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGTERM");
  }, PARENT_POLL_MS);
  timer.unref();
}
