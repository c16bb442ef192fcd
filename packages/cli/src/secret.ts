import process from "node:process";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

const SECRET_BYTES_MAX = 65_536;

/** Prompts for a secret without echo; without a terminal it is read from stdin. */
export async function askSecret(name: string): Promise<string> {
  if (!process.stdin.isTTY) return (await readStdin(SECRET_BYTES_MAX)).toString();
  const { isCancel, password } = await import("@clack/prompts");
  // stdout is for results, so the prompt goes to stderr.
  const answer = await password({ message: name, output: process.stderr });
  if (isCancel(answer)) throw new Failure(EXIT.interrupted, "interrupted", { bare: true });
  return answer ?? "";
}

let stdin: Promise<Buffer> | undefined;

/**
 * Reads all of stdin. Throws if it is longer than `bytes_max`. A second call returns the same bytes: a command with names of objects may run
 * twice.
 */
export const readStdin = (bytes_max: number): Promise<Buffer> => (stdin ??= readAll(bytes_max));

async function readAll(bytes_max: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > bytes_max) throw new Failure(EXIT.usage, `stdin has more than ${bytes_max} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
