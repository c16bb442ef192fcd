import type { Clock } from "@roamfleet/clock";
import { type Channel, CLOSE_NOT_AVAILABLE, type StreamSource } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { type RobotConfig, SIGNED_SWITCHES, type SignedSwitch, STREAM_SWITCHES } from "../config-file/robot-config.ts";
import { cameraStreams } from "./camera/index.ts";
import { filesSource } from "./files/index.ts";
import { forwardSource } from "./forward/forward.ts";
import type { Shells } from "./shell/index.ts";
import { type TopicsOptions, topicsSource } from "./topics/index.ts";
import type { ReleaseGuard } from "../signing/release-guard.ts";

interface StreamParts {
  robot: RobotConfig;
  clock: Clock;
  log: Logger;
  /** The agent's state directory. No file in it is served. */
  state_directory: string;
  signatures: SignaturePolicy;
  /** Environment variables of the agent's child processes, such as ffmpeg. */
  environment: Readonly<Record<string, string>>;
  shells: Pick<Shells, "source">;
  /** Gives access to the robot's ROS; absent: the agent has no ROS. */
  ros?: TopicsOptions["ros"];
}

/**
 * Returns the handler of each kind of stream. The server opens a channel with the name of a kind. Kinds that the robot does not allow
 * refuse every channel.
 */
export function streamSources(parts: StreamParts): ReadonlyMap<string, StreamSource> {
  const { robot, clock, log, state_directory, signatures, environment, shells, ros } = parts;
  const is_confined = (): boolean => signatures.requires_signature;
  const sources = new Map<string, StreamSource>([
    ["echo", echo],
    ["shell", shells.source],
    ["camera", cameraStreams({ cameras: robot.cameras, clock, log, environment, ...(ros === undefined ? {} : { ros }) })],
    ["forward", forwardSource({ allow: robot.forward.allow, clock })],
    ["files", filesSource({ ...robot.files, state_directory, user: robot.shell.user, is_confined, environment, clock, log })],
  ]);
  for (const kind of SIGNED_SWITCHES) sources.set(kind, signedOnly(kind, sources.get(kind)!, robot, signatures));
  if (ros !== undefined) sources.set("topics", topicsSource({ ros, clock }));
  for (const kind of STREAM_SWITCHES) if (!robot.streams[kind]) sources.set(kind, switchedOff);
  return sources;
}

const switchedOff: StreamSource = (channel) => channel.reset(CLOSE_NOT_AVAILABLE, "disabled on the robot");

type SignaturePolicy = Pick<ReleaseGuard, "requires_signature" | "askRequired" | "onRequired">;

/**
 * Wraps the handler of a stream through which a user could change what the robot runs. While signed releases are required, the handler
 * refuses channels unless the robot's config file allows this kind. When signed releases become required, all open channels are ended.
 */
function signedOnly(kind: SignedSwitch, source: StreamSource, robot: RobotConfig, policy: SignaturePolicy): StreamSource {
  const refuse = (channel: Channel): void =>
    channel.reset(CLOSE_NOT_AVAILABLE, `this robot runs signed releases only, and its config file does not allow ${kind} (signed.allow)`);
  const is_allowed = robot.signed.allow.includes(kind);
  return async (channel, params) => {
    const left = new AbortController();
    void channel.ended.then(() => left.abort());
    const is_required = await policy.askRequired(left.signal).catch(() => policy.requires_signature);
    if (is_required && !is_allowed) return refuse(channel);
    // When signed releases become required, end the open channel, since it may have been started with more rights than are then allowed.
    const forget = policy.onRequired(() => refuse(channel));
    void channel.ended.then(forget);
    return source(channel, params);
  };
}

/** Sends each message back, no faster than the other end reads. Tests and measures the connection to the robot. */
export async function echo(channel: Channel): Promise<void> {
  for await (const message of channel) if (!(await channel.write(message))) return;
}
