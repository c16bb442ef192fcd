import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { type Clock, IdleTimeout } from "@roamfleet/clock";
import { FRAME_IDLE_MS, type SourceEnd, withoutSecrets } from "./frame-source.ts";
import type { RunJpegs } from "./ffmpeg.ts";
import { jpegOf, JpegSplitter } from "./jpeg-splitter.ts";
import { errorText } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";
import { UndecodedMessage } from "../../ros/adapter.ts";
import type { RosBridge } from "../../ros/bridge.ts";

/**
 * Reads frames of an MJPEG stream over HTTP (multipart/x-mixed-replace). Ignores boundaries, since cameras disagree on their dashes, and
 * Content-Length, since many cameras omit it. Finds each JPEG by its own markers, which the data between JPEGs does not contain.
 */
export function mjpegFrames(url: string, clock: Clock): RunJpegs {
  return ({ signal, frame, refused, bytes_max }) =>
    new Promise((resolve) => {
      const failed = (reason: string): void => end({ failed: true, reason: `${withoutSecrets(url)}: ${reason}` });
      const idle = new IdleTimeout(clock, FRAME_IDLE_MS, () => failed(`no frame received for ${FRAME_IDLE_MS / 1_000} s`));
      const stop = (): void => end({ failed: false, reason: "no viewers" });
      const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(url, { agent: false });
      let ended = false;
      const end = (why: SourceEnd): void => {
        if (ended) return;
        ended = true;
        idle.stop();
        signal.removeEventListener("abort", stop);
        request.destroy();
        resolve(why);
      };
      const splitter = new JpegSplitter(
        (jpeg) => {
          idle.touch();
          if (!ended) frame(jpeg);
        },
        refused,
        bytes_max,
      );
      signal.addEventListener("abort", stop, { once: true });
      request.on("error", ({ message }) => failed(message));
      request.on("response", (response: IncomingMessage) => {
        if (response.statusCode !== 200) return failed(`returned status ${response.statusCode}`);
        response.on("data", (chunk: Buffer) => splitter.push(chunk));
        response.on("error", ({ message }) => failed(message));
        response.on("close", () => failed("the stream ended"));
      });
      request.end();
      if (signal.aborted) stop();
    });
}

/**
 * Reads frames of a ROS topic of type sensor_msgs/CompressedImage. Drops frames that are not JPEG. If no JPEG arrives, fails with a reason
 * that names the format of the frames.
 */
export function rosFrames(topic: string, ros: Pick<RosBridge, "subscribe"> | undefined, clock: Clock): RunJpegs {
  return async ({ signal, frame, refused, bytes_max }) => {
    if (ros === undefined) return { failed: true, reason: "ROS is not available on this robot", final: true };
    const { promise, resolve } = Promise.withResolvers<SourceEnd>();
    let trouble = "the topic has no publisher";
    const idle = new IdleTimeout(clock, FRAME_IDLE_MS, () =>
      resolve({ failed: true, reason: `no frame received from ${topic} for ${FRAME_IDLE_MS / 1_000} s: ${trouble}` }),
    );
    const stop = (): void => resolve({ failed: false, reason: "no viewers" });
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    let unsubscribe: (() => void) | undefined;
    try {
      unsubscribe = await ros.subscribe(topic, {}, ({ message, type }) => {
        if (signal.aborted) return;
        if (message instanceof UndecodedMessage) {
          trouble = message.reason;
          return;
        }
        const found = imageOf(message, bytes_max);
        if (found instanceof Uint8Array) {
          idle.touch();
          frame(found);
        } else if (found === "too large") refused();
        else trouble = `${type} ${found}`;
      });
      return await promise;
    } catch (error) {
      return { failed: true, reason: `${topic}: ${errorText(error)}` };
    } finally {
      unsubscribe?.();
      idle.stop();
      signal.removeEventListener("abort", stop);
    }
  };
}

/** Returns the JPEG in a message. If there is none, returns a message that states why. */
function imageOf(message: unknown, bytes_max: number): Uint8Array | string {
  const { data: image, format } = fieldsOf(message);
  if (image === undefined) return "has no picture";
  const data = bytesOf(image);
  if (data === undefined) return "has no bytes in its data";
  if (data.length > bytes_max) return "too large";
  const jpeg = jpegOf(data);
  if (jpeg !== undefined) return jpeg;
  return `is not JPEG (format: ${typeof format === "string" ? format.slice(0, 40) : "unknown"})`;
}

/** Returns the bytes in a field of a message. Adapters that use JSON encode bytes as base64 or as an array of numbers. */
function bytesOf(data: unknown): Uint8Array | undefined {
  if (data instanceof Uint8Array) return data;
  if (typeof data === "string") return Buffer.from(data, "base64");
  return Array.isArray(data) ? Uint8Array.from(data as number[]) : undefined;
}
