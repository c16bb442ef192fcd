import { type Connection, credentialHeaders, sessionHeaders, urlOf } from "../connection.ts";
import { Unreachable } from "../errors.ts";
import type { Body } from "../options.ts";
import { Passing, type SendRequest, type UploadArguments, uploadBy } from "../upload-session.ts";

const IDLE_MS_MAX = 60_000;

export interface UploadBlobArguments extends Omit<UploadArguments, "size"> {
  file: Blob;
}

/** Uploads a selected file with XMLHttpRequest, because fetch reports no upload progress. */
export function uploadBlob(connection: Connection, args: UploadBlobArguments): Promise<Body<"getRelease">> {
  return uploadBy(connection, { ...args, size: args.file.size }, sender(connection, args));
}

function sender(connection: Connection, { file, signal }: UploadBlobArguments): SendRequest {
  return (method, path, headers, part) =>
    new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open(method, urlOf(connection, path));
      const sent = { ...credentialHeaders(connection, path), ...sessionHeaders(connection), accept: "application/json", ...headers };
      for (const [name, value] of Object.entries(sent)) request.setRequestHeader(name, value);
      const abort = (): void => request.abort();
      signal?.addEventListener("abort", abort, { once: true });
      // Use an idle timeout that progress restarts, because XMLHttpRequest's own timeout limits the whole request.
      let idle: ReturnType<typeof setTimeout>;
      const move = (): void => {
        clearTimeout(idle);
        idle = setTimeout(abort, IDLE_MS_MAX);
      };
      move();
      request.upload.addEventListener("progress", ({ loaded }) => {
        move();
        if (part !== undefined) part.on_progress?.(part.start + loaded);
      });
      request.addEventListener("loadend", () => {
        clearTimeout(idle);
        signal?.removeEventListener("abort", abort);
        if (signal?.aborted === true) reject(asError(signal.reason));
        else if (request.status === 0) reject(new Passing(new Unreachable(connection.base_url, "the connection failed")));
        else resolve(asResponse(request));
      });
      request.send(part === undefined ? null : file.slice(part.start, part.end));
    });
}

const asError = (reason: unknown): Error => (reason instanceof Error ? reason : new Error("the upload was aborted"));

/** Statuses for which the Response constructor refuses a body. */
const WITHOUT_BODY = new Set([204, 205, 304]);

function asResponse(request: XMLHttpRequest): Response {
  const headers = new Headers();
  for (const line of request.getAllResponseHeaders().trim().split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return new Response(WITHOUT_BODY.has(request.status) ? null : request.responseText, { status: request.status, headers });
}
