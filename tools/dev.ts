import { root } from "../bin/launch.mjs";
import { endLike, runChild } from "../bin/run-child.mjs";

// `npm run dev [-- SERVE OPTION…]`: the server, restarted whenever a source file it has loaded changes.
const serve = ["packages/server/src/main.ts", "serve", ...process.argv.slice(2)];
endLike(await runChild(process.execPath, ["--watch", "--watch-preserve-output", ...serve], { cwd: root }));
