import { type Channel, type ChannelEnd, ChannelRefused, type SendClass } from "@roamfleet/protocol/link";
import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { requireChannel } from "./limits.ts";
import type { Viewer } from "./viewer.ts";

/** The reason with which an agent refuses an unknown kind of stream. */
const UNKNOWN_TO_AGENT = "not supported here";
const LINK_GONE = 1006;
const NOT_ANSWERED = 4408;

/** Converts the end of a channel to the close code and reason for its viewers. */
export function closeOf({ code, reason }: ChannelEnd): ChannelEnd {
  if (code === LINK_GONE) return { code: CLOSE.agent_offline, reason: "agent offline" };
  if (code === NOT_ANSWERED) return { code: CLOSE.ended_by_robot, reason: "the robot does not answer" };
  if (code === CLOSE.too_many) return { code, reason: "too many streams of this robot are open" };
  if (code === 1000) return { code, reason };
  return { code: CLOSE.ended_by_robot, reason: reason === UNKNOWN_TO_AGENT ? "not supported by this agent" : reason };
}

/** Opens a channel to the viewer's robot. Rejects with ChannelRefused, also if the robot is not connected. */
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
 * Opens a channel for this viewer only. When the channel is refused or ends, the viewer is closed with the reason. When the viewer
 * leaves, the channel is reset. Returns undefined if the channel was refused or the viewer has left.
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

/** Closes the viewer with the result of its channel, after all messages have been forwarded. */
export async function closeWith(viewer: Viewer, channel: Channel): Promise<void> {
  const { code, reason } = closeOf(await channel.ended);
  viewer.close(code, reason);
}
