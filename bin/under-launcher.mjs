import net from "node:net";
import process from "node:process";
import { pathToFileURL } from "node:url";

// What the launcher starts when its own Node is too old: runs the file named first, and ends when the launcher is gone,
// however that died. Its end of this pipe closes even when it is killed and can pass nothing on any more.
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
