import { spawn } from "node:child_process";
import path from "node:path";
import { type Channel, controlMessage } from "@robofleet/protocol/link";
import type { Clock } from "@robofleet/clock";
import type { ShellUser } from "../shell/shell-user.ts";
import { PipePort } from "./pipe-port.ts";
import type { FileRoom } from "./place.ts";

const CLOSE_REFUSED = 4410;
/** A process that does not notice its end. */
const END_TIMEOUT_MS = 5_000;
/** Of the agent's own settings it is given nothing. */
const PATH_OF_CHILD = "/usr/local/bin:/usr/bin:/bin";

/** The agent's program: a bundle is what was started. */
const program = (): string =>
  import.meta.filename.endsWith(".ts") ? path.resolve(import.meta.dirname, "../../main.ts") : (process.argv[1] ?? "");

/** Serves a channel from a process that runs as the user: so the system itself sees to it what that user may. */
export async function serveInProcess(
  channel: Channel,
  room: FileRoom,
  user: ShellUser,
  { clock }: { clock: Pick<Clock, "setTimer"> },
): Promise<void> {
  const argv = [...user.become, process.execPath, program(), "serve-files"];
  const env = { HOME: user.home, PATH: PATH_OF_CHILD };
  const child = spawn(argv[0] ?? "", argv.slice(1), { cwd: "/", env, stdio: ["pipe", "pipe", "ignore"] });
  const gone = new Promise<void>((resolve) => child.once("close", () => resolve()).once("error", () => resolve()));
  const port = new PipePort(child.stdout, child.stdin);
  const leave = (): void => {
    child.stdin.end();
    child.stdout.destroy();
  };
  void channel.ended.then(leave);
  const inward = (async () => {
    await port.write(controlMessage({ type: "room", ...room }));
    for await (const message of channel) if (!(await port.write(message))) return;
  })();
  for (let message = await port.read(); message !== undefined; message = await port.read()) if (!(await channel.write(message))) break;
  channel.reset(CLOSE_REFUSED, `the robot cannot serve files as ${user.name}`);
  const late = clock.setTimer(END_TIMEOUT_MS, () => child.kill("SIGKILL"));
  await Promise.all([inward, gone]);
  late.cancel();
}
