import { CLOSE_NOT_AVAILABLE, type Channel, type StreamSource } from "@roamfleet/protocol/link";
import type { RobotConfig, SignedSwitch } from "../config-file/robot-config.ts";
import type { ReleaseGuard } from "../signing/release-guard.ts";

export type SignaturePolicy = Pick<ReleaseGuard, "requires_signature" | "askRequired" | "onRequired">;

/**
 * Wraps a stream through which a user could change what the robot runs. While signed releases are required it is refused, unless the robot's config
 * file allows it. Channels that are open when the requirement begins are ended.
 */
export function signedOnly(kind: SignedSwitch, source: StreamSource, robot: RobotConfig, policy: SignaturePolicy): StreamSource {
  const refuse = (channel: Channel): void =>
    channel.reset(
      CLOSE_NOT_AVAILABLE,
      `this robot runs signed releases only, and its config file does not allow ${kind} beside them (signed.allow)`,
    );
  const is_allowed = robot.signed.allow.includes(kind);
  return async (channel, params) => {
    const left = new AbortController();
    void channel.ended.then(() => left.abort());
    const is_required = await policy.askRequired(left.signal).catch(() => policy.requires_signature);
    if (is_required && !is_allowed) return refuse(channel);
    // A stream that is already open may have been started with more rights.
    const forget = policy.onRequired(() => refuse(channel));
    void channel.ended.then(forget);
    return source(channel, params);
  };
}
