import path from "node:path";
import { type Channel, CLOSE_NOT_AVAILABLE, controlMessage } from "@roamfleet/protocol/link";
import type { Clock } from "@roamfleet/clock";
import { spawnChild } from "../../runtime/spawn-child.ts";
import type { ShellUser } from "../shell/shell-user.ts";
import { PipePort } from "./pipe-port.ts";
import type { FileRoom } from "./place.ts";

const CLOSE_TOO_MANY = 4429;
/** Maximum processes: each has a separate Node runtime on the robot. */
export const PROCESSES_MAX = 8;
/** Time limit for a process to end. */
const END_TIMEOUT_MS = 5_000;
/** The process gets none of the agent's own settings. */
const PATH_OF_CHILD = "/usr/local/bin:/usr/bin:/bin";

/** The running processes of one robot, until they have ended. */
export interface Processes {
  running: number;
}

/** The agent's program: in a bundle the file that was started. */
const program = (): string =>
  import.meta.filename.endsWith(".ts") ? path.resolve(import.meta.dirname, "../../main.ts") : (process.argv[1] ?? "");

/** Serves a channel from a process that runs as the user, so that the operating system enforces its rights. */
export async function serveInProcess(
  channel: Channel,
  room: FileRoom,
  user: ShellUser,
  { clock, processes }: { clock: Pick<Clock, "setTimer">; processes: Processes },
): Promise<void> {
  if (processes.running >= PROCESSES_MAX)
    return channel.reset(CLOSE_TOO_MANY, `a robot serves at most ${PROCESSES_MAX} file sessions at a time`);
  const argv = [...user.become, process.execPath, program(), "serve-files"];
  const env = { HOME: user.home, PATH: PATH_OF_CHILD };
  const child = spawnChild(argv[0] ?? "", argv.slice(1), { cwd: "/", env, stdio: ["pipe", "pipe", "ignore"] });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) return channel.reset(CLOSE_NOT_AVAILABLE, "the robot could not start a process for files");
  const gone = new Promise<void>((resolve) => child.once("close", () => resolve()).once("error", () => resolve()));
  processes.running += 1;
  void gone.then(() => (processes.running -= 1));
  const port = new PipePort(stdout, stdin);
  const leave = (): void => {
    stdin.end();
    stdout.destroy();
    const late = clock.setTimer(END_TIMEOUT_MS, () => child.kill("SIGKILL"));
    void gone.then(() => late.cancel());
  };
  void channel.ended.then(leave);
  const inward = (async () => {
    await port.write(controlMessage({ type: "room", ...room }));
    for await (const message of channel) if (!(await port.write(message))) return;
  })();
  // Awaited below, possibly after it has failed.
  inward.catch(() => {});
  for (let message = await port.read(); message !== undefined; message = await port.read()) if (!(await channel.write(message))) break;
  channel.reset(CLOSE_NOT_AVAILABLE, `the robot cannot serve files as ${user.name}`);
  await Promise.all([inward, gone]);
}
