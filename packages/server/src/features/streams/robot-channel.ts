import { CLOSE } from "@roamfleet/protocol";
import { type Channel, type ChannelEnd, ChannelRefused, type SendClass } from "@roamfleet/protocol/link";
import type { Limits } from "../../config.ts";
import type { Plane } from "../../context.ts";
import type { Session } from "../../link/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import type { Viewer } from "./viewer.ts";

/** The reason that an agent returns when it refuses a kind of stream that it does not support. */
const UNKNOWN_TO_AGENT = "not supported here";
const LINK_GONE = 1006;
const NOT_ANSWERED = 4408;

/** Converts the close code and reason of a robot's channel to those for its viewers. */
export function closeOf({ code, reason }: ChannelEnd): ChannelEnd {
  if (code === LINK_GONE) return { code: CLOSE.agent_offline, reason: "agent offline" };
  if (code === NOT_ANSWERED) return { code: CLOSE.ended_by_robot, reason: "the robot does not answer" };
  if (code === CLOSE.too_many) return { code, reason: "too many streams of this robot are open" };
  if (code === 1000) return { code, reason };
  return { code: CLOSE.ended_by_robot, reason: reason === UNKNOWN_TO_AGENT ? "not supported by this agent" : reason };
}

/** Opens a channel to the viewer's robot. Rejects with ChannelRefused if the robot refuses the channel or is not connected. */
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
 * Opens a channel to the robot for this viewer only. If the channel is refused, closes the viewer's stream with the reason. When the viewer
 * leaves, resets the channel. Returns undefined if the channel was refused, or the viewer has left meanwhile.
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

/** Waits until the channel has ended and all its messages have been forwarded. Then closes the viewer's stream with the same result. */
export async function closeWith(viewer: Viewer, channel: Channel): Promise<void> {
  const { code, reason } = closeOf(await channel.ended);
  viewer.close(code, reason);
}

/** Parses a text frame of a viewer. Throws Error unless it is a JSON object whose `type` is one of `types`. */
export function readControl(data: Buffer, types: ReadonlySet<string>): Record<string, unknown> & { type: string } {
  const value: unknown = JSON.parse(data.toString("utf8"));
  if (typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && types.has(value.type))
    return value as Record<string, unknown> & { type: string };
  throw new Error("not a control message of this stream");
}

/**
 * Writes an action of a viewer to the timeline of its robot. If this fails, only logs the error, because the audit log contains the stream
 * anyway.
 */
export async function recordViewerAction(
  plane: Plane,
  { admitted }: Viewer,
  entry: { kind: string; summary: string; data: Record<string, unknown> },
): Promise<void> {
  const { caller, robot_id } = admitted;
  const { org_id, actor } = caller;
  try {
    await recordTimeline(plane.db.forOrg(org_id), plane, { org_id, robot_id, actor, ...entry });
  } catch (error) {
    plane.log.error({ err: error, kind: entry.kind }, "could not write a timeline entry of a stream");
  }
}

type StreamLimits = Pick<Limits, "streams_per_org_max" | "streams_per_robot_max" | "followers_per_robot_max" | "streams_kept_for_shells">;

/**
 * Returns an error text if too many streams are open for this viewer's stream to start, and undefined otherwise. `viewers` must include
 * this viewer. A part of each limit is reserved for shells, so that a user can repair a robot that has many viewers.
 */
export function tooMany(limits: StreamLimits, viewers: Iterable<Viewer>, { admitted }: Viewer): string | undefined {
  const { robot_id, kind } = admitted;
  const { org_id } = admitted.caller;
  let [of_org, of_robot, followers] = [0, 0, 0];
  for (const { open, admitted: other } of viewers) {
    if (!open || other.caller.org_id !== org_id) continue;
    of_org += 1;
    if (other.robot_id !== robot_id) continue;
    of_robot += 1;
    if (other.kind.name === "logs") followers += 1;
  }
  const kept = kind.name === "shell" ? 0 : limits.streams_kept_for_shells;
  if (of_org > limits.streams_per_org_max - kept) return "too many streams of this org are open";
  if (of_robot > limits.streams_per_robot_max - kept) return "too many streams of this robot are open";
  if (kind.name === "logs" && followers > limits.followers_per_robot_max) return "too many streams of this robot's log are open";
  return undefined;
}

/** Throws ChannelRefused if the connection of a robot has no room for another channel. The last channels are reserved for shells. */
export function requireChannel({ channel_room }: Session, send_class: SendClass, { streams_kept_for_shells: kept }: StreamLimits): void {
  if (channel_room <= (send_class === "shell" ? 0 : kept))
    throw new ChannelRefused({ code: CLOSE.too_many, reason: "the robot's link has no room for another stream" });
}
