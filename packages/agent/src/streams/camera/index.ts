import type { Clock } from "@roamfleet/clock";
import { type Channel, CLOSE_NOT_AVAILABLE, controlMessage, type StreamSource } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import type { CameraSource } from "../../config-file/robot-config.ts";
import type { RosBridge } from "../../ros/bridge.ts";
import { type FfmpegOptions, jpegSource, runFfmpeg } from "./ffmpeg.ts";
import { type CameraRequest, type FrameSource, readCameraRequest, type SourceEnd } from "./frame-source.ts";
import { mjpegFrames, rosFrames } from "./jpeg-frames.ts";
import { SharedSource } from "./shared-source.ts";
import { testPicture } from "./test-picture.ts";

/** Maximum number of sources that run at the same time, since each may be a process. */
const SOURCES_MAX = 8;
/**
 * Time in milliseconds after a failure in which new viewers get the same failure without a new
 * attempt.
 */
const FAILED_MS = 2_000;

interface CameraOptions {
  cameras: readonly CameraSource[];
  clock: Clock;
  log: Logger;
  /** Environment of children; ffmpeg is searched for on its PATH. */
  environment: Readonly<Record<string, string>>;
  /** Gives access to the robot's ROS; absent: the agent has no ROS. */
  ros?: Pick<RosBridge, "subscribe">;
}

/** Serves channels of kind `camera`: frames of the named camera, or the list of cameras. */
export function cameraStreams(options: CameraOptions): StreamSource {
  const shared = new Map<string, SharedSource>();
  const failed = new Map<string, { end: SourceEnd; at: number }>();
  /**
   * For each camera, the end of its previous source. A new source waits for it, since a device can
   * be opened only once.
   */
  const ending = new Map<string, Promise<void>>();
  return (channel, params) => {
    const request = readCameraRequest(params);
    if (request === "list") return answerList(channel, options.cameras);
    if ("fault" in request) return channel.reset(CLOSE_NOT_AVAILABLE, request.fault);
    const camera = choose(options.cameras, request);
    if (typeof camera === "string") return channel.reset(CLOSE_NOT_AVAILABLE, camera);
    const key = JSON.stringify([camera.name, request.fps, request.width, request.height, request.quality]);
    const before = failed.get(key);
    if (before !== undefined && options.clock.monotonic() - before.at < FAILED_MS)
      return channel.reset(CLOSE_NOT_AVAILABLE, before.end.reason);
    failed.delete(key);
    const source = shared.get(key) ?? start(key, camera, request);
    if (source === undefined) return channel.reset(CLOSE_NOT_AVAILABLE, `${SOURCES_MAX} cameras are open already`);
    source.join(channel);
  };

  function start(key: string, camera: CameraSource, request: CameraRequest): SharedSource | undefined {
    if (shared.size >= SOURCES_MAX) return undefined;
    const { clock, log } = options;
    const source = new SharedSource({
      name: camera.name,
      source: frameSource(camera, options),
      request,
      clock,
      log,
      after: ending.get(camera.name),
      over: (end) => {
        shared.delete(key);
        ending.set(camera.name, source.done);
        if (end?.failed === true) failed.set(key, { end, at: clock.monotonic() });
      },
    });
    shared.set(key, source);
    return source;
  }
}

function frameSource(camera: CameraSource, options: CameraOptions): FrameSource {
  const ffmpeg: FfmpegOptions = options;
  switch (camera.kind) {
    case "ffmpeg":
      return {
        kind: "ffmpeg",
        adjustable: () => true,
        run: (run) => runFfmpeg(camera.input, run, ffmpeg),
      };
    case "mjpeg":
      return jpegSource("mjpeg", mjpegFrames(camera.url, options.clock), ffmpeg);
    case "ros":
      return jpegSource("ros", rosFrames(camera.topic, options.ros, options.clock), ffmpeg);
    case "test_picture":
      return testPicture(ffmpeg);
  }
}

/** Returns the requested camera. If there is none, returns a message that states why. */
function choose(cameras: readonly CameraSource[], { camera: name }: CameraRequest): CameraSource | string {
  const [first] = cameras;
  if (first === undefined) return "this robot has no camera";
  const camera = name === undefined ? first : cameras.find((one) => one.name === name);
  return camera ?? `this robot has no camera of that name, only ${cameras.map((one) => one.name).join(", ")}`;
}

async function answerList(channel: Channel, cameras: readonly CameraSource[]): Promise<void> {
  const list = cameras.map(({ name, kind }) => ({ name, kind }));
  if (await channel.write(controlMessage({ type: "cameras", cameras: list }))) channel.close(1000, "");
}
