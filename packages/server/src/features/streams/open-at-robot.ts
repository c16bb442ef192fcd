import { type Channel, type ChannelEnd, ChannelRefused, type SendClass } from "@roamfleet/protocol/link";
import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { requireChannel } from "./limits.ts";
import type { Viewer } from "./viewer.ts";

/** With this reason an agent refuses a kind of stream that it has never heard of. */
const UNKNOWN_TO_AGENT = "not supported here";
const LINK_GONE = 1006;
const NOT_ANSWERED = 4408;

/** What a viewer's stream is closed with when its channel ended so. */
export function closeOf({ code, reason }: ChannelEnd): ChannelEnd {
  if (code === LINK_GONE) return { code: CLOSE.agent_offline, reason: "agent offline" };
  if (code === NOT_ANSWERED) return { code: CLOSE.ended_by_robot, reason: "the robot does not answer" };
  if (code === CLOSE.too_many) return { code, reason: "too many streams of this robot are open" };
  if (code === 1000) return { code, reason };
  return { code: CLOSE.ended_by_robot, reason: reason === UNKNOWN_TO_AGENT ? "not supported by this agent" : reason };
}

/** Opens a channel at the viewer's robot. Rejects with ChannelRefused, also when the robot is not connected. */
export async function openChannel(
  plane: Plane,
  { admitted }: Viewer,
  kind: string,
  send_class: Exclude<SendClass, "control">,
  params: unknown,
): Promise<Channel> {
  const session = plane.link.session(admitted.robot_id);
  if (session === undefined || session.org_id !== admitted.caller.org_id)
    throw new ChannelRefused({ code: LINK_GONE, reason: "the robot is not connected" });
  requireChannel(session, send_class, plane.settings.limits);
  return await session.openChannel(kind, send_class, params);
}

/**
 * Opens a channel for this viewer alone. Each ends the other: when the channel is refused or over, the viewer is told why; when
 * the viewer has left, the channel is reset. Undefined: it was refused, or nobody is there any more.
 */
export async function openAtRobot(
  plane: Plane,
  viewer: Viewer,
  kind: string,
  send_class: Exclude<SendClass, "control">,
  params: unknown,
): Promise<Channel | undefined> {
  let channel: Channel;
  try {
    channel = await openChannel(plane, viewer, kind, send_class, params);
  } catch (error) {
    if (!(error instanceof ChannelRefused)) throw error;
    const { code, reason } = closeOf({ code: error.code, reason: error.message });
    viewer.close(code, reason);
    return undefined;
  }
  if (!viewer.open) {
    channel.reset(1000, "the viewer left");
    return undefined;
  }
  viewer.onEnd = () => channel.reset(1000, "the viewer left");
  return channel;
}

/** Closes the viewer as its channel ended, once everything that came before has been sent on. */
export async function closeWith(viewer: Viewer, channel: Channel): Promise<void> {
  const { code, reason } = closeOf(await channel.ended);
  viewer.close(code, reason);
}
