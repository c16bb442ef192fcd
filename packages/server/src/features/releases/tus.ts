import { badRequest, Fault, httpError } from "../../kernel/fault.ts";
import { Answer } from "../../kernel/serve.ts";

export type Headers = Record<string, string | string[] | undefined>;

const VERSION = "1.0.0";
const CONTENT_TYPE = /^application\/offset\+octet-stream\s*(;|$)/i;
const NUMBER = /^\d{1,15}$/;

/** Whether the request uses tus; a HEAD without it asks for the artifact. */
export const speaksTus = (headers: Headers): boolean => headers["tus-resumable"] !== undefined;

/** Runs a handler of the tus 1.0 protocol: checks the version and adds the header to every response, including errors. */
export async function tus<B>(headers: Headers, work: () => Promise<Answer<B>>): Promise<Answer<B>> {
  if (headers["tus-resumable"] !== VERSION) {
    throw httpError(412, `the header Tus-Resumable must be ${VERSION}`, { "tus-version": VERSION, "tus-resumable": VERSION });
  }
  try {
    const answer = await work();
    return new Answer(answer.status, answer.body, { ...answer.headers, "tus-resumable": VERSION });
  } catch (error) {
    if (error instanceof Fault) error.headers["tus-resumable"] = VERSION;
    throw error;
  }
}

/** Reads a header that counts bytes. */
export function readCount(headers: Headers, name: "Upload-Length" | "Upload-Offset"): number {
  const text = headers[name.toLowerCase()];
  if (typeof text !== "string" || !NUMBER.test(text)) throw badRequest(`the header ${name} must be a number of bytes`);
  return Number(text);
}

export function requireOffsetBody(headers: Headers): void {
  const type = headers["content-type"];
  if (typeof type !== "string" || !CONTENT_TYPE.test(type)) throw httpError(415, "the body must be application/offset+octet-stream");
}
