import { CLOSE } from "@roamfleet/protocol";
import {
  CAMERA_BOUNDS,
  CAMERA_FRAME_BYTES_MAX,
  CAMERA_NAME_CHARACTERS_MAX,
  type CameraParams,
  CAMERAS_MAX,
  readMessage,
} from "@roamfleet/protocol/link";
import { badRequest } from "../../kernel/fault.ts";
import type { StartStream, StreamContext } from "./stream-kind.ts";
import { LatestSlot } from "./hub.ts";
import { closeWith, openAtRobot, openChannel } from "./robot-channel.ts";
import type { Viewer } from "./viewer.ts";

const NUMBERS = ["fps", "width", "height", "quality"] as const;
export const CAMERA_QUERY = ["camera", ...NUMBERS, "list"] as const;

/**
 * Prepares a camera stream (query `camera`, `fps`, `width`, `height`, `quality`) or the list of cameras (query `list`). Throws 400 for
 * invalid values.
 */
export function prepareCamera(query: URLSearchParams): StartStream {
  const given = CAMERA_QUERY.filter((name) => query.has(name));
  if (given.includes("list")) {
    if (given.length > 1) throw badRequest("query parameter list cannot be combined with others");
    return listCameras;
  }
  const params: Exclude<CameraParams, { list: true }> = {};
  const camera = query.get("camera");
  if (camera !== null && (camera === "" || camera.length > CAMERA_NAME_CHARACTERS_MAX))
    throw badRequest(`query parameter camera must be a name of at most ${CAMERA_NAME_CHARACTERS_MAX} characters`);
  if (camera !== null) params.camera = camera;
  for (const name of NUMBERS) {
    const text = query.get(name);
    if (text !== null) params[name] = readNumber(name, text);
  }
  return (context, viewer) => watchCamera(context, viewer, params);
}

function readNumber(name: (typeof NUMBERS)[number], text: string): number {
  const { minimum, maximum } = CAMERA_BOUNDS[name];
  const value = (name === "fps" ? /^\d{1,3}(\.\d{1,3})?$/ : /^\d{1,5}$/).test(text) ? Number(text) : Number.NaN;
  if (!(value >= minimum && value <= maximum))
    throw badRequest(`query parameter ${name} must be a ${name === "fps" ? "" : "whole "}number from ${minimum} to ${maximum}`);
  return value;
}

/**
 * Streams the frames of a camera to a viewer. Viewers with the same parameters share one channel to the robot. If a viewer is slow, frames
 * are skipped: the next frame that it gets is always the newest one.
 */
async function watchCamera({ plane, hub }: StreamContext, viewer: Viewer, params: CameraParams): Promise<void> {
  const slot = new LatestSlot<Buffer>(viewer, (frame) => frame);
  await hub.share({
    // The key needs no org, because robot ids are unique across orgs.
    key: JSON.stringify([viewer.admitted.robot_id, "camera", params]),
    open: () => openChannel(plane, viewer, "camera", "camera", params),
    viewer,
    take: (message) => {
      const frame = frameOf(message);
      if (frame === undefined) viewer.close(CLOSE.ended_by_robot, "the robot sent an invalid frame");
      else slot.offer(frame);
    },
    greet: true,
  });
}

/** Parsed camera frames by the message that contained them. All viewers share them. */
const frames = new WeakMap<Uint8Array, Buffer>();

/**
 * Returns the camera frame in a message. Returns undefined if the message is invalid or too long. The maximum length limits the memory for
 * the two frames that are buffered for a slow viewer.
 */
function frameOf(message: Uint8Array): Buffer | undefined {
  const known = frames.get(message);
  if (known !== undefined) return known;
  if (message.length > CAMERA_FRAME_BYTES_MAX + 1) return undefined;
  try {
    const { data } = readMessage(message);
    if (data === undefined) return undefined;
    // Convert to a Buffer once. Otherwise the bytes would be converted again for each viewer.
    const frame = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    frames.set(message, frame);
    return frame;
  } catch {
    return undefined;
  }
}

/** Sends the robot's cameras in one text frame, `{"cameras":[{"name","kind"}]}`, and then closes the stream with 1000. */
async function listCameras({ plane }: StreamContext, viewer: Viewer): Promise<void> {
  const channel = await openAtRobot(plane, viewer, "camera", "camera", { list: true });
  if (channel === undefined) return;
  const message = await channel.read();
  const cameras = message === undefined ? undefined : camerasOf(message);
  if (cameras !== undefined) await viewer.send(JSON.stringify({ cameras }));
  else if (message !== undefined) channel.reset(1008, "not a list of cameras");
  await closeWith(viewer, channel);
}

function camerasOf(message: Uint8Array): { name: string; kind: string }[] | undefined {
  try {
    const { control } = readMessage(message);
    if (!Array.isArray(control?.cameras)) return undefined;
    return (control.cameras as unknown[]).slice(0, CAMERAS_MAX).flatMap((one) => {
      const { name, kind } = (one ?? {}) as Record<string, unknown>;
      return isShort(name) && isShort(kind) ? [{ name, kind }] : [];
    });
  } catch {
    return undefined;
  }
}

const isShort = (text: unknown): text is string => typeof text === "string" && text.length <= CAMERA_NAME_CHARACTERS_MAX;
