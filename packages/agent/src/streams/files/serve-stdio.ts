import { systemClock } from "@roamfleet/clock";
import { readMessage } from "@roamfleet/protocol/link";
import { PipePort } from "./pipe-port.ts";
import { serveFiles } from "./session.ts";

/** The other end of serveInProcess: receives the allowed directories first, then requests. Ends with its input. */
export async function serveStdio(): Promise<void> {
  const port = new PipePort(process.stdin, process.stdout);
  const first = await port.read();
  const { directories, home, closed } = first === undefined ? {} : (readMessage(first).control ?? {});
  if (!Array.isArray(directories) || typeof home !== "string" || typeof closed !== "string")
    throw new Error("serve-files is started by the agent itself");
  await serveFiles(port, { directories: directories.map(String), home, closed }, () => systemClock.now().getTime());
}
