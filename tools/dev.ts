import { spawn } from "node:child_process";
import path from "node:path";
import { root } from "../bin/launch.mjs";
import { runChild } from "../bin/run-child.mjs";

/**
 * `npm run dev [-- SERVE OPTION…]`: the server, restarted when a source file that it has loaded changes, and the dashboard from its
 * sources, updated without a reload. Ctrl-C ends both.
 */

const args = process.argv.slice(2);
const listen = args[args.indexOf("--listen") + 1];
const server = args.includes("--listen") && listen !== undefined ? `http://${listen}` : "http://127.0.0.1:7600";

const vite = path.join(root, "node_modules", "vite", "bin", "vite.js");
const dashboard = spawn(process.execPath, [vite, "packages/dashboard", "--clearScreen", "false"], {
  cwd: root,
  stdio: ["ignore", "inherit", "inherit"],
  env: { ...process.env, ROAMFLEET_URL: process.env.ROAMFLEET_URL ?? server },
});
// The dashboard is served by Vite, so the server does not build it at each restart.
const serve = ["packages/server/src/main.ts", "serve", "--no-dashboard", ...args];
const ending = await runChild(process.execPath, ["--watch", "--watch-preserve-output", ...serve], { cwd: root });
dashboard.kill();
// Set an exit code instead of ending this process with the child's signal, which would leave Vite no time to stop.
process.exitCode = ending.code ?? 130;
