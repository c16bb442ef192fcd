import { createReadStream } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline } from "node:stream/promises";
import { Transform } from "node:stream";
import { fillPath, paths } from "@robofleet/protocol/paths";
import { type Connection, credentialHeaders, urlOf, withRetries } from "./connection.ts";
import { unreachable, Unreachable } from "./errors.ts";
import { readIncoming, readJson } from "./incoming.ts";
import type { Body } from "./route-types.ts";

/** Without a byte moving for this long, the upload has ended. */
const IDLE_MS_MAX = 60_000;

export interface UploadArguments {
  release_id: string;
  /** Path of the file. */
  file: string;
  /** Its size in bytes: the server is told before the first one. */
  size: number;
  /** Called with the bytes handed to the network so far; goes back to 0 when the upload is tried again. */
  on_progress?: ((bytes_done: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Streams a file to a release: memory does not grow with its size. node:http instead of fetch, whose body streams are
 * sent without a length that the server could refuse early.
 */
export async function upload(connection: Connection, args: UploadArguments): Promise<Body<"putReleaseArtifact">> {
  const response = await withRetries(connection, { repeatable: true, signal: args.signal }, () => put(connection, args));
  return (await readJson(response)).body as Body<"putReleaseArtifact">;
}

async function put(connection: Connection, args: UploadArguments): Promise<Response> {
  args.signal?.throwIfAborted();
  const [method, template] = paths.putReleaseArtifact;
  const path = fillPath(template, { id: args.release_id });
  const url = new URL(urlOf(connection, path));
  const ending = new AbortController();
  const signal = args.signal === undefined ? ending.signal : AbortSignal.any([args.signal, ending.signal]);
  const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, {
    method,
    headers: {
      ...credentialHeaders(connection, path),
      accept: "application/json",
      "content-type": "application/octet-stream",
      "content-length": args.size,
    },
    ...connection.tls,
    signal,
    timeout: IDLE_MS_MAX,
  });
  request.on("timeout", () => request.destroy(new Unreachable(connection.base_url, "timeout")));
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.on("response", resolve);
    request.on("error", reject);
  });
  const sent = pipeline(createReadStream(args.file), counting(args.on_progress), request, { signal: ending.signal });
  // A server that refuses answers before it has read all: then that answer counts, not the pipe it closed.
  sent.catch(() => {});
  try {
    const answer = await Promise.race([
      answered,
      sent.then(
        () => answered,
        (error: unknown) => firstOf(answered, error),
      ),
    ]);
    return await readIncoming(answer);
  } catch (error) {
    if (args.signal?.aborted) throw args.signal.reason;
    if (error instanceof Unreachable || isFileError(error)) throw error;
    throw unreachable(connection.base_url, error);
  } finally {
    ending.abort();
    request.destroy();
  }
}

/** The answer if one has come, else the error of sending. */
function firstOf(answered: Promise<IncomingMessage>, error: unknown): Promise<IncomingMessage> {
  return isFileError(error) ? Promise.reject(error) : answered;
}

/** An error about the file itself, such as one that was removed meanwhile. */
const isFileError = (error: unknown): error is Error => error instanceof Error && "path" in error && "syscall" in error;

function counting(on_progress: ((bytes_done: number) => void) | undefined): Transform {
  let bytes_done = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes_done += chunk.length;
      on_progress?.(bytes_done);
      done(null, chunk);
    },
  });
}
