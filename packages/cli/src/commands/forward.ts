import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { Forwarder, parsePortSpec, placeName } from "../forward/forwarder.ts";
import { plain } from "../text.ts";

/** Interval at which the robot's connection state is polled. */
const POLL_MS = 5_000;

interface Options {
  bind: string;
}

export const forward = defineCommand<[string, string[], Options]>(
  "Forward local ports to a robot until interrupted. LOCAL:REMOTE maps a local port to one on the robot; LOCAL:HOST:REMOTE reaches another host, if the robot's configuration allows it (forward.allow); 0 as LOCAL picks a free port.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .argument("<ports...>", "LOCAL:REMOTE or LOCAL:HOST:REMOTE")
      .option(
        "--bind <address>",
        "Local address to listen on; any address other than loopback exposes the robot to the network",
        "127.0.0.1",
      ),
  async (context, robot_id, texts, { bind }) => {
    const specs = texts.map(parsePortSpec);
    const client = await context.client();
    const signal = context.interruptible();
    // Request the robot first, so that an invalid token or robot id fails immediately instead of at the first connection.
    const { data } = await client.getRobot({ params: { id: robot_id } });
    const forwarder = new Forwarder({ client, robot_id, signal, note: (text) => context.out.note(plain(text)) });
    const polling = context.clock.every(POLL_MS, () => pollStatus(forwarder, client, robot_id));
    try {
      for (const spec of specs) {
        const local_port = await forwarder.listen(spec, bind);
        const local = placeName(bind, local_port);
        const remote = placeName(spec.host, spec.port);
        if (context.structured) await context.out.record({ local, robot_id, remote });
        else context.out.line(plain(`${local} → ${remote} of ${data.name}`));
      }
      forwarder.setOffline(data.status !== "online");
      await Promise.race([forwarder.failed, aborted(signal)]);
    } finally {
      polling.cancel();
      forwarder.close();
    }
  },
  ["rf robots forward rob_… 8080:80", "rf robots forward rob_… 2222:22 0:8765", "rf robots forward rob_… 5000:192.168.1.20:554"],
);

async function pollStatus(forwarder: Forwarder, client: Awaited<ReturnType<Context["client"]>>, robot_id: string): Promise<void> {
  try {
    const { data } = await client.getRobot({ params: { id: robot_id } });
    forwarder.setOffline(data.status !== "online");
  } catch {
    // Ignore errors of the poll. If they persist, the next forwarded connection reports them.
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
