import process from "node:process";
import { launch } from "../bin/launch.mjs";

const PARENT_POLL_MS = 500;
/** Programs that start without the development dependencies, so that they start sooner in a new clone. */
const WITHOUT_DEV = ["tools/demo/main.ts", "tools/dashboard.ts"];

const [entry, ...args] = process.argv.slice(2);
if (entry === undefined) {
  process.stderr.write("usage: node tools/run.mjs FILE.ts [ARGUMENT…]\n");
  process.exitCode = 2;
} else {
  if (process.env.npm_lifecycle_event !== undefined) endWithParent();
  await launch(entry, args, [], !WITHOUT_DEV.includes(entry));
}

/**
 * Ends this process when npm, its parent, was killed and could forward no signal. Otherwise npm forwards SIGTERM and SIGINT, which arrive
 * here because the npm scripts begin with `exec`.
 */
function endWithParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGTERM");
  }, PARENT_POLL_MS);
  timer.unref();
}
