import type { IncomingMessage } from "node:http";
import { ApiError } from "./errors.ts";

/** An answer read by node:http is a release or an error: longer ones are not ours. */
const ANSWER_BYTES_MAX = 1_048_576;

/** An answer of node:http as fetch gives it. What is beyond 1 MiB is an error. */
export async function readIncoming(incoming: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > ANSWER_BYTES_MAX) throw new Error("the answer is too long");
    chunks.push(chunk);
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) if (typeof value === "string") headers.set(name, value);
  return new Response(chunks.length === 0 ? null : Buffer.concat(chunks), { status: incoming.statusCode ?? 500, headers });
}

/** The JSON of an answer. Throws ApiError when it is an error, or no JSON. */
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
