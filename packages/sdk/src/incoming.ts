import type { IncomingMessage } from "node:http";
import { ApiError } from "./errors.ts";

/** Maximum response size in bytes. Only releases and errors are read here, which are smaller. */
const ANSWER_BYTES_MAX = 1_048_576;

/** Converts a node:http response to a fetch Response. Throws for more than 1 MiB. */
export async function readIncoming(incoming: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > ANSWER_BYTES_MAX) throw new Error("the response is too long");
    chunks.push(chunk);
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) if (typeof value === "string") headers.set(name, value);
  return new Response(chunks.length === 0 ? null : Buffer.concat(chunks), { status: incoming.statusCode ?? 500, headers });
}

/** Parses a JSON response. Throws ApiError for an error status or invalid JSON. */
export async function readJson(response: Response): Promise<{ status: number; headers: Headers; body: unknown }> {
  const { status, headers } = response;
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new ApiError({ status, headers, body: text });
  }
  if (!response.ok) throw new ApiError({ status, headers, body });
  return { status, headers, body };
}
