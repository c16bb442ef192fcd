import type { Channel } from "@roamfleet/protocol/link";

/** Sends back what it is sent, as far as the other end reads it: proves the way to the robot, and measures it. */
export async function echo(channel: Channel): Promise<void> {
  for await (const message of channel) if (!(await channel.write(message))) return;
}
