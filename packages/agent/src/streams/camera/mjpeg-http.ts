import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Clock } from "@roamfleet/clock";
import { FRAME_SILENCE_MS, type SourceEnd } from "./frame-source.ts";
import type { RunJpegs } from "./jpeg-source.ts";
import { JpegSplitter } from "./jpeg-splitter.ts";
import { withoutSecrets } from "./last-words.ts";
import { IdleTimeout } from "./silence.ts";

/**
 * Reads frames of an MJPEG stream over HTTP (multipart/x-mixed-replace). Cameras disagree on the boundary's dashes and many omit Content-Length, so
 * both are ignored: JPEGs are found by their own markers, which the data between them does not contain.
 */
export function mjpegFrames(url: string, clock: Clock): RunJpegs {
  return ({ signal, frame, refused, bytes_max }) =>
    new Promise((resolve) => {
      const failed = (reason: string): void => end({ failed: true, reason: `${withoutSecrets(url)}: ${reason}` });
      const silence = new IdleTimeout(clock, FRAME_SILENCE_MS, () => failed(`no picture for ${FRAME_SILENCE_MS / 1_000} s`));
      const stop = (): void => end({ failed: false, reason: "no viewers" });
      const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(url, { agent: false });
      let ended = false;
      const end = (why: SourceEnd): void => {
        if (ended) return;
        ended = true;
        silence.stop();
        signal.removeEventListener("abort", stop);
        request.destroy();
        resolve(why);
      };
      const splitter = new JpegSplitter(
        (jpeg) => {
          silence.heard();
          if (!ended) frame(jpeg);
        },
        refused,
        bytes_max,
      );
      signal.addEventListener("abort", stop, { once: true });
      request.on("error", ({ message }) => failed(message));
      request.on("response", (response: IncomingMessage) => {
        if (response.statusCode !== 200) return failed(`answered ${response.statusCode}`);
        response.on("data", (chunk: Buffer) => splitter.push(chunk));
        response.on("error", ({ message }) => failed(message));
        response.on("close", () => failed("the stream ended"));
      });
      request.end();
      if (signal.aborted) stop();
    });
}
