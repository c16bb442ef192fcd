import { CLOSE } from "@roamfleet/protocol";
import { ChannelRefused, type SendClass } from "@roamfleet/protocol/link";
import type { Limits } from "../../config.ts";
import type { Session } from "../../link/index.ts";
import type { Viewer } from "./viewer.ts";

type StreamLimits = Pick<Limits, "streams_per_org_max" | "streams_per_robot_max" | "followers_per_robot_max" | "streams_kept_for_shells">;

/**
 * Returns the limit that a viewer exceeds, who is already in `viewers`; undefined if there is room. Some streams are reserved for
 * shells, so that a user can repair a robot that has many viewers.
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

/** Throws ChannelRefused if the remaining channels of a robot's link are reserved for shells. */
export function requireChannel({ channel_room }: Session, send_class: SendClass, { streams_kept_for_shells: kept }: StreamLimits): void {
  if (channel_room <= (send_class === "shell" ? 0 : kept))
    throw new ChannelRefused({ code: CLOSE.too_many, reason: "the robot's link has no room for another stream" });
}
