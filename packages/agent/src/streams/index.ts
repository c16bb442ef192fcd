import type { Clock } from "@robofleet/clock";
import { CLOSE_NOT_AVAILABLE, type StreamSource } from "@robofleet/protocol/link";
import { type RobotConfig, STREAM_SWITCHES } from "../config-file/robot-config.ts";
import { echo } from "./echo.ts";
import { forwardSource } from "./forward/index.ts";
import type { Shells } from "./shell/index.ts";

export interface StreamParts {
  robot: RobotConfig;
  clock: Clock;
  shells: Pick<Shells, "source">;
}

/** Kinds of streams that this agent serves: the server opens a channel with the kind's name. What the robot forbids is refused. */
export function streamSources({ robot, clock, shells }: StreamParts): ReadonlyMap<string, StreamSource> {
  const sources = new Map<string, StreamSource>([
    ["echo", echo],
    ["shell", shells.source],
    ["forward", forwardSource({ allow: robot.forward.allow, clock })],
  ]);
  for (const kind of STREAM_SWITCHES) if (!robot.streams[kind]) sources.set(kind, switchedOff);
  return sources;
}

const switchedOff: StreamSource = (channel) => channel.reset(CLOSE_NOT_AVAILABLE, "switched off on the robot");
