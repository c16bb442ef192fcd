import type { Clock } from "@roamfleet/clock";
import { CLOSE_NOT_AVAILABLE, type StreamSource } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { type RobotConfig, SIGNED_SWITCHES, STREAM_SWITCHES } from "../config-file/robot-config.ts";
import { cameraStreams } from "./camera/index.ts";
import { echo } from "./echo.ts";
import { filesSource } from "./files/index.ts";
import { forwardSource } from "./forward/index.ts";
import type { Shells } from "./shell/index.ts";
import { type SignaturePolicy, signedOnly } from "./signed-only.ts";
import { type TopicsOptions, topicsSource } from "./topics/index.ts";

export interface StreamParts {
  robot: RobotConfig;
  clock: Clock;
  log: Logger;
  /** Never served as files. */
  state_directory: string;
  signatures: SignaturePolicy;
  /** Environment of the agent's children, such as ffmpeg. */
  environment: Readonly<Record<string, string>>;
  shells: Pick<Shells, "source">;
  /** Absent: this agent has no ROS. */
  ros?: TopicsOptions["ros"];
}

/** Returns the kinds of streams that this agent serves: the server opens a channel with the kind's name. Kinds that the robot forbids are refused. */
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

const switchedOff: StreamSource = (channel) => channel.reset(CLOSE_NOT_AVAILABLE, "switched off on the robot");
