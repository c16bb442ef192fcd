import { createReadStream } from "node:fs";
import { type Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { pipeline } from "node:stream/promises";
import { Transform } from "node:stream";
import { type Connection, credentialHeaders, urlOf } from "./connection.ts";
import { unreachable, Unreachable } from "./errors.ts";
import { readIncoming } from "./incoming.ts";
import { proxiedAgent } from "./proxied-agent.ts";
import type { Body } from "./options.ts";
import { type Part, Passing, type SendRequest, type UploadArguments, uploadBy } from "./upload-session.ts";

/** Timeout of a request without progress. */
const IDLE_MS_MAX = 60_000;

export interface UploadFileArguments extends UploadArguments {
  /** Path of the file; `size` is its size in bytes. */
  file: string;
}

/** Uploads a file as a release's artifact with node:http, because Node's fetch reports no progress. */
export async function uploadFile(connection: Connection, args: UploadFileArguments): Promise<Body<"getRelease">> {
  const agent = proxiedAgent(connection.base_url, { keepAlive: true });
  try {
    return await uploadBy(connection, args, sender(connection, args, agent));
  } finally {
    agent.destroy();
  }
}

function sender(connection: Connection, { file, signal }: UploadFileArguments, agent: HttpAgent | HttpsAgent): SendRequest {
  const open = agent instanceof HttpsAgent ? httpsRequest : httpRequest;
  return async (method, path, headers, part) => {
    const request = open(new URL(urlOf(connection, path)), {
      method,
      agent,
      headers: { ...credentialHeaders(connection, path), accept: "application/json", ...headers, ...lengthOf(part) },
      ...connection.tls,
      ...(signal === undefined ? {} : { signal }),
      timeout: IDLE_MS_MAX,
    });
    request.on("timeout", () => request.destroy(new Unreachable(connection.base_url, "timeout")));
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.on("response", resolve);
      request.on("error", reject);
    });
    answered.catch(() => {});
    try {
      if (part === undefined) request.end();
      // Wait for the response or for the end of sending. A server that refuses the upload may respond before it has read everything. Then
      // its response matters, not the broken pipe.
      else await Promise.race([answered, sendPart(file, part, request)]);
      return await readIncoming(await answered);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (isFileError(error)) throw error;
      const gone = error instanceof Unreachable ? error : unreachable(connection.base_url, error);
      throw gone.passing ? new Passing(gone) : gone;
    } finally {
      if (!request.writableFinished || request.destroyed) request.destroy();
    }
  };
}

const lengthOf = (part: Part | undefined): Record<string, string> =>
  part === undefined ? {} : { "content-length": String(part.end - part.start) };

/** Sends a part of the file. Rejects only for file errors; connection errors are reported by the request. */
async function sendPart(file: string, { start, end, on_progress }: Part, request: NodeJS.WritableStream): Promise<void> {
  try {
    await pipeline(createReadStream(file, { start, end: end - 1 }), counting(start, on_progress), request);
  } catch (error) {
    if (isFileError(error)) throw error;
  }
}

/** Returns whether the error concerns the file, for example because it was removed during the upload. */
const isFileError = (error: unknown): error is Error => error instanceof Error && "path" in error && "syscall" in error;

function counting(offset: number, on_progress: ((bytes_done: number) => void) | undefined): Transform {
  let bytes_done = offset;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes_done += chunk.length;
      on_progress?.(bytes_done);
      done(null, chunk);
    },
  });
}
