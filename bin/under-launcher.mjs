import net from "node:net";
import process from "node:process";
import { pathToFileURL } from "node:url";

// The launcher starts this file if its own Node is too old. It runs the file in its first argument, and ends when the
// launcher ends: the launcher's end of this pipe closes even if the launcher is killed and cannot forward a signal.
const LIFELINE_FD = 3;

const [file, ...args] = process.argv.slice(2);
if (file === undefined) throw new Error("the launcher names a file");
const lifeline = new net.Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on("error", () => {});
lifeline.on("close", () => process.kill(process.pid, "SIGTERM"));
lifeline.resume();
lifeline.unref();

process.argv = [process.execPath, file, ...args];
await import(pathToFileURL(file).href);
