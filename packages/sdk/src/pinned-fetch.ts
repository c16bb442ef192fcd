import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { proxiedAgent } from "./proxied-agent.ts";

/** Maximum sockets to one service kept for reuse. */
const SOCKETS_MAX = 64;
const WITHOUT_BODY = new Set([101, 204, 205, 304]);

/**
 * Creates a fetch that trusts one certificate authority only. Uses node:https, because Node's fetch can set an authority only for the whole
 * process. Request bodies must be strings or byte arrays. Redirects are returned, not followed. Rejects like the standard fetch: with a
 * TypeError whose cause is the socket's error.
 */
export function pinnedFetch(ca: string): typeof fetch {
  const agent = proxiedAgent("https:", { ca, keepAlive: true, maxSockets: SOCKETS_MAX });
  return async (input, init = {}) => {
    const body = init.body ?? undefined;
    if (body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array))
      throw new Error("this fetch accepts only strings and bytes as body");
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = Object.fromEntries(new Headers(init.headers));
    if (body !== undefined) headers["content-length"] = String(Buffer.byteLength(body));
    const signal = init.signal ?? undefined;
    const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = httpsRequest(url, { agent, method: init.method ?? "GET", headers, ...(signal === undefined ? {} : { signal }) });
      request.on("response", resolve);
      request.on("error", (cause) => reject(new TypeError("fetch failed", { cause })));
      request.end(body);
    });
    return asResponse(incoming);
  };
}

function asResponse(incoming: IncomingMessage): Response {
  const status = incoming.statusCode ?? 500;
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(incoming.headersDistinct)) for (const value of values) headers.append(name, value);
  if (!WITHOUT_BODY.has(status)) return new Response(ReadableStream.from(read(incoming)), { status, headers });
  incoming.resume();
  return new Response(null, { status, headers });
}

async function* read(incoming: IncomingMessage): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer<ArrayBuffer>>) yield chunk;
  } catch (cause) {
    throw new TypeError("terminated", { cause });
  }
}
