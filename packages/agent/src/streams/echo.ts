import type { Channel } from "@roamfleet/protocol/link";

/** Sends all messages back, as fast as the other end reads them: tests and measures the connection to the robot. */
export async function echo(channel: Channel): Promise<void> {
  for await (const message of channel) if (!(await channel.write(message))) return;
}
